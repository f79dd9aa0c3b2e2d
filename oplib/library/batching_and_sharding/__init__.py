"""Axes that a transformation removes: the batch axes of vmap, and axes that are spread over devices."""
