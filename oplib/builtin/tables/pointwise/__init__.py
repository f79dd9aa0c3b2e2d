"""Ops that compute each item from the items at the same position."""
