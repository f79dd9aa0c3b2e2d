"""Ops on arrays: one pair of primitives per op, and everything compiled for it."""
