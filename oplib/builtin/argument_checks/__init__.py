"""Checks of values that compiled kernels cannot make."""
