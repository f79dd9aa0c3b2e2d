"""Functions made of several ops."""
