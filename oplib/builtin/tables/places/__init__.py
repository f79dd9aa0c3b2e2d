"""Ops that read or write at indices."""
