"""Transformations of functions of Tensors."""

from .jit.function import jit
from .vmap.mapped_function import apply_in_map
from .vmap.vmap import map_examples, vmap

__all__ = ["apply_in_map", "jit", "map_examples", "vmap"]
