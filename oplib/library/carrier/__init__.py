"""Ops in the array world: one primitive pair for each, and what is compiled for it."""
