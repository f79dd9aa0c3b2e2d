"""Kernels: which one is meant, and how each kind of them runs, on Tensors, arrays or in numpy."""
