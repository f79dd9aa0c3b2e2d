"""Arguments and results that are pytrees: their arrays are operands, everything else is static."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from oplib.tensor import Tensor

from .plain_conversions import is_array


def is_tree_leaf(value: Any) -> bool:
    """Tells whether a value is one array, even if JAX could take it apart."""
    return isinstance(value, Tensor) or hasattr(value, "__jax_array__")


def is_none(value: object) -> bool:
    """Tells whether a value is None: a gradient of zero, for all arrays below its place."""
    return value is None


class TreeEntry:
    """The static part of an argument or a result that is a pytree.

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

    def pick(self, tree: Any, stands_for_all: Callable[[Any], bool]) -> list[Any]:
        """Returns what another tree of this structure has in the places of the arrays.

        Args:
            tree: the other tree. Static leaves of this one may have any value there.
            stands_for_all: tells whether a value stands for all arrays below its place.

        Raises:
            ValueError: the tree has another structure.
        """
        places = jax.tree_util.tree_unflatten(self.structure, range(len(self.members)))
        picked = dict(_align(places, tree, stands_for_all))
        return [picked[place] for place, member in enumerate(self.members) if member is None]


def _align(places: Any, tree: Any, stands_for_all: Callable[[Any], bool]) -> Iterator[tuple[int, Any]]:
    """Yields each leaf of a tree of numbers with what another tree has there."""
    if isinstance(places, int):
        yield places, tree
    elif stands_for_all(tree):
        yield from ((place, tree) for place in jax.tree_util.tree_leaves(places))
    else:
        children, node = jax.tree_util.tree_flatten(places, is_leaf=lambda value: value is not places)
        for child, subtree in zip(children, node.flatten_up_to(tree), strict=True):
            yield from _align(child, subtree, stands_for_all)


def split_tree(
    value: Any, read: Callable[[Any], Any], fix: Callable[[Any], Any]
) -> tuple[TreeEntry, list[Any]]:
    """Splits a pytree into its static part and its arrays.

    Args:
        value: any value.
        read: returns the array of a leaf, None if the leaf is static.
        fix: makes the key of a static leaf.
    """
    leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=is_tree_leaf)
    taken = list(map(read, leaves))
    members = tuple(
        None if array is not None else fix(leaf) for leaf, array in zip(leaves, taken, strict=True)
    )
    return TreeEntry(structure, members), [array for array in taken if array is not None]


def read_array(leaf: Any) -> Any:
    """Returns the array of a leaf, None if it is static; a number of Python is."""
    if isinstance(leaf, (Tensor, jax.Array)):
        return leaf
    if hasattr(leaf, "__jax_array__"):
        return leaf.__jax_array__()
    return leaf if is_array(leaf) and not isinstance(leaf, np.generic) else None
