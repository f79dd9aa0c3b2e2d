"""Kernels: the choice of a kernel, and the execution of each kind, on Tensors, arrays or numpy arrays."""
