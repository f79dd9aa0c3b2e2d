"""Ops in the array world: one pair of primitives per op, and everything compiled for it."""
