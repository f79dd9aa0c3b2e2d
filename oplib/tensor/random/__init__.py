"""Generators, and factories of random Tensors."""
