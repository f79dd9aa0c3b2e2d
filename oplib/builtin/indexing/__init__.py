"""Indexing: ``x[...]`` and ``x[...] = value``."""
