"""Shapes given as arguments, and lengths that are symbols during export."""
