"""Linear algebra that is made of several ops."""
