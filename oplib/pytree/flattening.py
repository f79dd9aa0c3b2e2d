"""Flattening trees, rebuilding them, and functions of their leaves."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import optree

from oplib.errors import ArgumentTypeError, describe

from .cycles import explain_depth
from .dataclass_nodes import leaf_classes, note_class
from .registry import DATACLASSES, NAMESPACE

TreeSpec: TypeAlias = optree.PyTreeSpec
IsLeaf: TypeAlias = "Callable[[Any], bool] | None"
Types: TypeAlias = "type[Any] | tuple[type[Any], ...] | types.UnionType"


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Flattens a tree.

    Args:
        tree: lists, tuples, namedtuples, dictionaries, deques and registered classes; other objects are
            leaves.
        is_leaf: returns True for a subtree that is to be a leaf.

    Returns:
        The leaves in order, and the structure.

    Example:
        >>> leaves, spec = tree_flatten({"b": 1, "a": [2, None]})
        >>> leaves
        [1, 2, None]
        >>> tree_unflatten(leaves, spec)
        {'b': 1, 'a': [2, None]}
    """
    try:
        return optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError as error:
        raise explain_depth(tree, error) from None


def tree_flatten_dataclasses(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Flattens a tree as :func:`tree_flatten`, including plain dataclasses and classes registered with JAX.

    Every field of a dataclass is a subtree, and so is every item if it is a dictionary too. Unflattening
    sets them without a call of ``__init__`` or ``__post_init__``. So frozen dataclasses work, and leaves need
    not have the declared types.

    Args:
        tree: as for :func:`tree_flatten`.
        is_leaf: returns True for a subtree that is to be a leaf.

    Returns:
        The leaves in order, and the structure.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Point:
        ...     x: float
        ...     y: float
        >>> leaves, spec = tree_flatten_dataclasses([Point(1.0, 2.0), 3.0])
        >>> leaves
        [1.0, 2.0, 3.0]
        >>> tree_unflatten([4.0, 5.0, 6.0], spec)
        [Point(x=4.0, y=5.0), 6.0]
    """
    while True:
        try:
            leaves, spec = optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=DATACLASSES)
        except RecursionError as error:
            raise explain_depth(tree, error) from None
        if all(cls in leaf_classes for cls in {type(leaf) for leaf in leaves}):
            return leaves, spec
        are_nodes = [note_class(leaf) for leaf in leaves if not (is_leaf is not None and is_leaf(leaf))]
        if not any(are_nodes):
            return leaves, spec


def tree_unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """Rebuilds a tree, with torch's order of arguments.

    Args:
        leaves: one leaf per position of the structure.
        spec: the structure that a flattening function returned.

    Returns:
        A new tree.

    Raises:
        ValueError: the number of leaves is wrong.
    """
    return optree.tree_unflatten(spec, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Returns the leaves of a tree in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """Returns the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(function: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Applies a function to the leaves of one or several trees of the same structure.

    Args:
        function: called with one leaf of each tree.
        tree: the tree whose structure the result has.
        *rests: trees with the same structure, or a deeper one; dictionaries are matched by key.
        is_leaf: returns True for a subtree of ``tree`` that is to be a leaf.

    Returns:
        A tree of the results.

    Raises:
        ValueError: a tree in ``rests`` has another structure.

    Example:
        >>> tree_map(lambda a, b: (a, b), {"x": 1, "y": None}, {"y": 2, "x": 3})
        {'x': (1, 3), 'y': (None, 2)}
    """
    try:
        return optree.tree_map(
            function, tree, *rests, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE
        )
    except RecursionError as error:
        raise explain_depth(tree, error) from None


def tree_map_only(
    types_or_predicate: Types | Callable[[Any], bool],
    function: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """Applies a function to the leaves of some types, and keeps the other leaves.

    Args:
        types_or_predicate: a type, a tuple or union of types, or a predicate that selects leaves.
        function: called with each selected leaf.
        tree: any tree.
        is_leaf: returns True for a subtree that is to be a leaf.

    Returns:
        A tree of the same structure.

    Raises:
        ArgumentTypeError: ``types_or_predicate`` is another object.

    Example:
        >>> tree_map_only(int, lambda leaf: leaf + 1, [1, "a", (2, None)])
        [2, 'a', (3, None)]
    """
    if isinstance(types_or_predicate, (type, tuple, types.UnionType)):
        chosen = types_or_predicate
        return tree_map(
            lambda leaf: function(leaf) if isinstance(leaf, chosen) else leaf, tree, is_leaf=is_leaf
        )
    if not callable(types_or_predicate):
        raise ArgumentTypeError(
            f"tree_map_only: the first argument selects leaves. Got {types_or_predicate!r}. "
            f"Pass a type, a tuple of types, a union, or a function from a leaf to a bool."
        )
    picks: Callable[[Any], bool] = types_or_predicate
    return tree_map(lambda leaf: function(leaf) if picks(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_any_only(types: Types, predicate: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Returns whether the predicate is true for a leaf of these types; False if there is no such leaf.

    Raises:
        ArgumentTypeError: ``types`` is no type, tuple or union of types.

    Example:
        >>> tree_any_only(int, lambda leaf: leaf > 1, [1, "a", (2,)])
        True
    """
    return any(map(predicate, _list_leaves_of(types, tree, is_leaf, "tree_any_only")))


def tree_all_only(types: Types, predicate: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Returns whether the predicate is true for all leaves of these types; True if there is no such leaf.

    Raises:
        ArgumentTypeError: ``types`` is no type, tuple or union of types.

    Example:
        >>> tree_all_only(int, lambda leaf: leaf > 1, [1, "a", (2,)])
        False
    """
    return all(map(predicate, _list_leaves_of(types, tree, is_leaf, "tree_all_only")))


def _list_leaves_of(types: Types, tree: Any, is_leaf: IsLeaf, subject: str) -> list[Any]:
    """Returns the leaves of some types."""
    try:
        return [leaf for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types)]
    except TypeError:
        if _is_class_info(types):
            raise  # of a predicate is_leaf, or of a type
        raise ArgumentTypeError(
            f"{subject}: the first argument selects leaves. Got {describe(types)}. Pass a type, a tuple of "
            "types or a union."
        ) from None


def _is_class_info(types: Any) -> bool:
    try:
        isinstance(None, types)
    except TypeError:
        return False
    return True


def leaf_unless_list_of(types: Types, *, or_none: bool = False) -> Callable[[Any], bool]:
    """Makes the leaf test for arguments in which only tuples, and lists of one type, are containers.

    Args:
        types: the type of all items of a list that is a container, such as ``Tensor``.
        or_none: whether such a list may also contain None.

    Returns:
        A function that returns False for a tuple and for such a list (also an empty one), True for other
            objects.

    Example:
        >>> is_leaf = leaf_unless_list_of(int)
        >>> is_leaf([1, 2]), is_leaf([]), is_leaf((None,)), is_leaf([1, None]), is_leaf({})
        (False, False, False, True, True)
    """

    def is_leaf(tree: Any) -> bool:
        if isinstance(tree, tuple):
            return False
        if isinstance(tree, list):
            return not all(isinstance(item, types) or (or_none and item is None) for item in tree)
        return True

    return is_leaf
