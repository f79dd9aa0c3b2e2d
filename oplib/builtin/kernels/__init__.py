"""What the kernels of several tables share."""
