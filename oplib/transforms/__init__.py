"""Transformations of functions of Tensors."""

from .mapped_function import apply_in_map
from .vmap import map_examples, vmap

__all__ = ["apply_in_map", "map_examples", "vmap"]
