"""Transformations of functions of Tensors: ``vmap``, ``checkpoint``, ``jit`` and control flow."""

from .vmap.mapped_function import apply_in_map
from .vmap.vmap import map_examples, vmap

__all__ = ["apply_in_map", "map_examples", "vmap"]
