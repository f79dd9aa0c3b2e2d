"""Arguments and results that are pytrees: their arrays are operands, everything else is static."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from oplib.autograd.array_functions.masks import pick_given
from oplib.protocols import Values
from oplib.tensor import Tensor

from .functions import OpenFunction, is_function, is_lasting, open_function
from .plain_conversions import convert_to_array, is_array


def is_tree_leaf(value: Any) -> bool:
    """Tells whether a value is one array, even if JAX could take it apart."""
    return isinstance(value, Tensor) or hasattr(value, "__jax_array__")


def is_none(value: object) -> bool:
    """Tells whether a value is None: a gradient of zero, for all arrays below its place."""
    return value is None


class Keyed:
    """A static value; two of a class are equal if their keys are.

    Attributes:
        key: stands for the value.
    """

    __slots__ = ("key",)
    key: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and type(other) is type(self) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class HeldRef(Keyed):
    """A ``jax.Ref`` in an argument, compared by identity.

    Args:
        value: the Ref, which may be traced.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = id(value)


class TreeEntry(Keyed):
    """The static part of an argument or a result that is a pytree.

    Args:
        structure: JAX's structure of the tree.
        members: for each leaf None if it is an array, otherwise its static value.
        is_transient: the structure holds a function that ends with its last user, and so must its code.

    Attributes:
        structure: JAX's structure of the tree.
        members: for each leaf None if it is an array, otherwise its static value.
        count: the number of arrays.
        refs: the Refs among the static leaves.
        is_transient: as given, or because it has Refs.
    """

    __slots__ = ("count", "is_transient", "members", "refs", "structure")

    def __init__(self, structure: Any, members: Values, *, is_transient: bool = False) -> None:
        self.structure = structure
        self.members = members
        self.refs = [member.value for member in members if isinstance(member, HeldRef)]
        self.is_transient = is_transient or bool(self.refs)
        self.count = sum(member is None for member in members)
        self.key = structure, members

    def __repr__(self) -> str:
        return str(self.structure)

    def rebuild(self, arrays: Iterator[Any], *, static: bool = True) -> Any:
        """Joins arrays and static leaves again; with ``static=False`` None stands for each static leaf."""
        leaves = [
            next(arrays) if member is None else member.value if static else None for member in self.members
        ]
        return jax.tree_util.tree_unflatten(self.structure, leaves)

    def replace_refs(self, refs: Iterator[Any]) -> TreeEntry:
        """Returns the same with other Refs."""
        members = [HeldRef(next(refs)) if isinstance(own, HeldRef) else own for own in self.members]
        return TreeEntry(self.structure, tuple(members), is_transient=True)

    def spread_facts(self, facts: Iterator[Any], absent: Any) -> Any:
        """Arranges one fact per array as a tree; ``absent`` for a static leaf, or for all without arrays.

        They are a tuple instead, one per leaf, if a class in the tree accepts arrays only.
        """
        if not self.count:
            return absent
        leaves = [next(facts) if member is None else absent for member in self.members]
        try:
            return jax.tree_util.tree_unflatten(self.structure, leaves)
        except Exception:  # noqa: BLE001  the code of the class decides what it accepts
            return tuple(leaves)

    def pick(self, tree: Any, stands_for_all: Callable[[Any], bool]) -> list[Any]:
        """Returns what another tree of this structure has in the places of the arrays.

        Args:
            tree: the other tree. Static leaves of this one may have any value there.
            stands_for_all: tells whether a value stands for all arrays below its place.

        Raises:
            ValueError: the tree has another structure.
        """
        picked = zip(self.members, _align(self.structure, tree, stands_for_all), strict=True)
        return [leaf for member, leaf in picked if member is None]


def _align(structure: Any, tree: Any, stands_for_all: Callable[[Any], bool]) -> Iterator[Any]:
    """Yields what a tree has for each leaf of a structure. It builds no tree of other values than arrays."""
    if structure.num_leaves == 0:  # that of None counts as a leaf for JAX
        return
    if jax.tree_util.treedef_is_leaf(structure):
        yield tree
    elif stands_for_all(tree):
        yield from [tree] * structure.num_leaves
    else:
        parts, node = jax.tree_util.tree_flatten(tree, is_leaf=lambda value: value is not tree)
        children = structure.children()
        if structure.node_data() != node.node_data() or len(parts) != len(children):
            raise ValueError(f"Expected {structure}, got {node}.")
        for child, part in zip(children, parts, strict=True):
            yield from _align(child, part, stands_for_all)


def open_functions(
    value: Any, fix: Callable[[Any], Any], *, subject: str, is_static: bool
) -> tuple[Any, bool | None]:
    """Returns a tree in which the values that its functions close over are leaves.

    Args:
        value: the tree.
        fix: makes the key of a static leaf; it raises if the leaf cannot be hashed.
        subject: the op and its argument, for errors.
        is_static: the annotation declares objects without arrays; functions in them may close over some.

    Returns:
        The tree, and whether it holds a function that ends with its last user; None if it has no function.
    """
    leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=_is_leaf)
    functions = [is_function(leaf, declared=is_static) for leaf in leaves]
    if not any(functions):
        return value, None
    is_transient = False
    for index, leaf in enumerate(leaves):
        if functions[index]:
            leaves[index] = opened = open_function(leaf, subject)
            fix(opened.func)
            is_transient |= isinstance(opened.func, OpenFunction) or not is_lasting(leaf)
    return jax.tree_util.tree_unflatten(structure, leaves), is_transient


def is_object_tree(value: Any) -> bool:
    """Tells whether a value is or holds an object that JAX takes apart, whose leaves may change: a layer."""
    if isinstance(value, (tuple, list, dict)):
        return any(map(is_object_tree, value.values() if isinstance(value, dict) else value))
    return value is not None and not jax.tree_util.all_leaves([value])


def split_tree(
    value: Any, read: Callable[[Any], Any], fix: Callable[[Any], Any], *, is_transient: bool = False
) -> tuple[TreeEntry, list[Any]]:
    """Splits a pytree into its static part and its arrays.

    Args:
        value: any value.
        read: returns the array of a leaf, None if the leaf is static.
        fix: makes the key of a static leaf.
        is_transient: the tree holds a function that ends with its last user.
    """
    leaves, structure = jax.tree_util.tree_flatten(value, is_leaf=is_tree_leaf)
    taken = list(map(read, leaves))
    members = tuple(
        None if array is not None else HeldRef(leaf) if isinstance(leaf, jax.Ref) else fix(leaf)
        for leaf, array in zip(leaves, taken, strict=True)
    )
    entry = TreeEntry(structure, members, is_transient=is_transient)
    return entry, pick_given(taken)


def _is_leaf(value: Any) -> bool:
    return is_tree_leaf(value) or isinstance(value, functools.partial)


def read_leaf(leaf: Any) -> Any:
    """Returns the array of a leaf, None if it is static; a number of Python is, and a Ref."""
    if isinstance(leaf, jax.Ref):
        return None
    if isinstance(leaf, (Tensor, jax.Array)):
        return leaf
    if hasattr(leaf, "__jax_array__"):
        return convert_to_array(leaf)
    return leaf if is_array(leaf) and not isinstance(leaf, np.generic) else None
