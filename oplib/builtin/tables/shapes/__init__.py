"""Ops that move items: views, copies, joins."""

from . import memory, movement, rearrangement, view_scatter

FAMILIES = (movement, memory, rearrangement, view_scatter)
