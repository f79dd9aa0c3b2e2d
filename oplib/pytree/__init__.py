"""Trees of containers, flattened to lists of leaves: optree with torch's conventions.

``None`` is a leaf, and dictionaries keep their insertion order, also in the comparison of two specs. A Tensor
is a leaf; only ``jax.tree_util`` treats it as a container.

Classes are registered in a namespace of oplib, so this module does not affect optree or JAX.
"""

from oplib.torch_names import make_dir as _make_dir

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
from .paths import (
    key_get,
    keystr,
    tree_flatten_with_path,
    tree_leaves_with_path,
    tree_map_with_path,
)
from .registry import register_pytree_node

__all__ = [
    "TreeSpec",
    "key_get",
    "keystr",
    "leaf_unless_list_of",
    "register_pytree_node",
    "tree_all_only",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_dataclasses",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]
__dir__ = _make_dir(globals())
