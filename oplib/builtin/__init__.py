"""The built-in ops: their tables, and the functions and methods made from them."""
