"""Ops that make new items: constants and random numbers."""
