"""Transformations of functions of Tensors."""

from .vmap import map_examples, vmap

__all__ = ["map_examples", "vmap"]
