"""The matrix of writes: paths that write a Tensor, crossed with how it lies in memory and with modes."""
