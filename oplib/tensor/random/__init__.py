"""Generators, and the factories of random Tensors."""
