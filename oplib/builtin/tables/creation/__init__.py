"""Ops that create new items: constants and random numbers."""
