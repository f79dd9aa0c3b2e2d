"""Trees of containers, flattened to lists of leaves: optree with torch's conventions.

``None`` is a leaf, and dictionaries keep their insertion order, also in the comparison of two specs. A Tensor
is a leaf; only ``jax.tree_util`` treats it as a container.

Classes are registered in a namespace of oplib, so this module does not affect optree or JAX.
"""

from .flattening import (
    TreeSpec,
    leaf_unless_list_of,
    tree_all_only,
    tree_any_only,
    tree_flatten,
    tree_flatten_dataclasses,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)
from .registry import register_pytree_node

__all__ = [
    "TreeSpec",
    "leaf_unless_list_of",
    "register_pytree_node",
    "tree_all_only",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_dataclasses",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]
