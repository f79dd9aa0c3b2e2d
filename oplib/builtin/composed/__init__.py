"""Functions that are made of several ops."""
