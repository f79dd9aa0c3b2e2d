"""The tables of the built-in ops: each module holds the rows of one family, with kernels and rules."""
