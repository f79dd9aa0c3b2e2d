"""Ops that compute each item from the items at its place."""
