"""Transformations of functions of Tensors."""

from .control_flow import cond, scan, while_loop
from .jit.function import jit
from .vmap.mapped_function import apply_in_map
from .vmap.vmap import map_examples, vmap

__all__ = ["apply_in_map", "cond", "jit", "map_examples", "scan", "vmap", "while_loop"]
