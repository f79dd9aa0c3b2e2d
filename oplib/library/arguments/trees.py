"""Arguments that are pytrees: their arrays are operands of the call, everything else is static."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from oplib.tensor import Tensor

from .plain_conversions import is_array


def is_tree_leaf(value: Any) -> bool:
    """Tells whether a value is one array, even if JAX could take it apart."""
    return isinstance(value, Tensor) or hasattr(value, "__jax_array__")


class TreeEntry:
    """The static part of an argument that is a pytree.

    Attributes:
        structure: JAX's structure of the tree.
        members: for each leaf None if it is an array, otherwise its static value.
        count: the number of arrays.
    """

    __slots__ = ("_key", "count", "members", "structure")

    def __init__(self, structure: Any, members: tuple[Any, ...]) -> None:
        self.structure = structure
        self.members = members
        self.count = sum(member is None for member in members)
        self._key = structure, members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeEntry) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return str(self.structure)

    def rebuild(self, arrays: Iterator[Any], *, static: bool = True) -> Any:
        """Joins arrays and static leaves again; with ``static=False`` None stands for each static leaf."""
        leaves = [
            next(arrays) if member is None else member.value if static else None for member in self.members
        ]
        return jax.tree_util.tree_unflatten(self.structure, leaves)

    def spread_flags(self, flags: Iterator[bool]) -> Any:
        """Arranges one flag per array as a tree; a static leaf has False."""
        leaves = [next(flags) if member is None else False for member in self.members]
        return jax.tree_util.tree_unflatten(self.structure, leaves)

    def pick(self, tree: Any) -> list[Any]:
        """Returns what another tree of this structure has in the places of the arrays.

        Raises:
            ValueError: the tree has another structure.
        """
        subtrees = self.structure.flatten_up_to(tree)
        return [value for value, member in zip(subtrees, self.members, strict=True) if member is None]


def split_tree(value: Any, fix: Any) -> tuple[TreeEntry, list[Any]] | None:
    """Splits a pytree into its static part and its arrays; None if it has no array.

    Args:
        value: any value.
        fix: makes the key of a static leaf.
    """
    leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=is_tree_leaf)
    taken = [_read_array(leaf) for leaf in leaves]
    if all(leaf is None for leaf in taken):
        return None
    members = tuple(
        None if array is not None else fix(leaf) for leaf, array in zip(leaves, taken, strict=True)
    )
    return TreeEntry(structure, members), [array for array in taken if array is not None]


def _read_array(leaf: Any) -> Any:
    """Returns the array of a leaf, None if it is static; a number of Python is."""
    if isinstance(leaf, (Tensor, jax.Array)):
        return leaf
    if hasattr(leaf, "__jax_array__"):
        return leaf.__jax_array__()
    return leaf if is_array(leaf) and not isinstance(leaf, np.generic) else None
