"""Linear algebra made of several ops."""
