"""Axes that a transformation takes away: those of vmap, and those that are spread over devices."""
