"""The code that the kernels of several tables share."""
