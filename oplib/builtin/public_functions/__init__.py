"""The public functions and methods, made from the rows."""
