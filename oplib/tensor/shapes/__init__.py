"""Shapes given as arguments, and symbolic lengths during export."""
