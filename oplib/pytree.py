"""Trees of containers, flattened into lists of leaves: optree with torch's conventions.

``None`` is a leaf, dictionaries keep their insertion order, and so does the equality of two specs. A Tensor
is a leaf here; only ``jax.tree_util`` takes it apart.

Classes are registered in a namespace of oplib's own, so nothing here changes what optree or JAX do elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import optree

from .errors import ArgumentTypeError

TreeSpec: TypeAlias = optree.PyTreeSpec
IsLeaf: TypeAlias = "Callable[[Any], bool] | None"
Types: TypeAlias = "type[Any] | tuple[type[Any], ...] | types.UnionType"

_NAMESPACE = "oplib"
_DATACLASSES = "oplib.dataclasses"  # the same, in which plain dataclasses are nodes too

# Held open for the life of the process: optree offers the setting only as a context manager.
_insertion_order = contextlib.ExitStack()
for _name in (_NAMESPACE, _DATACLASSES):
    _insertion_order.enter_context(optree.dict_insertion_ordered(True, namespace=_name))
atexit.register(_insertion_order.close)

_registration = threading.Lock()
_seen_dataclasses: set[type[Any]] = set()  # those that nobody registered but this file


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Takes a tree apart.

    Args:
        tree: lists, tuples, namedtuples, dictionaries, deques and registered classes; the rest are leaves.
        is_leaf: says of a subtree that it is not to be taken apart.

    Returns:
        The leaves in order, and the structure.

    Example:
        >>> leaves, spec = tree_flatten({"b": 1, "a": [2, None]})
        >>> leaves
        [1, 2, None]
        >>> tree_unflatten(leaves, spec)
        {'b': 1, 'a': [2, None]}
    """
    return optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=_NAMESPACE)


def tree_flatten_dataclasses(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Takes a tree apart as :func:`tree_flatten` does, and instances of plain dataclasses with it.

    Every field is a subtree. Rebuilding sets the fields without calling ``__init__`` or ``__post_init__``, so
    frozen dataclasses work, and leaves need not be what the fields declare.

    Args:
        tree: as for :func:`tree_flatten`.
        is_leaf: says of a subtree that it is not to be taken apart.

    Returns:
        The leaves in order, and the structure.

    Example:
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
        leaves, spec = optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=_DATACLASSES)
        unseen = {type(leaf) for leaf in leaves if _is_plain_dataclass(leaf, is_leaf)}
        if not unseen:
            return leaves, spec
        for cls in unseen:
            _register_dataclass(cls)


def _is_plain_dataclass(leaf: Any, is_leaf: IsLeaf) -> bool:
    # The field table is looked up on the class: a dataclass type that stands in the tree is no instance.
    return hasattr(type(leaf), "__dataclass_fields__") and not (is_leaf is not None and is_leaf(leaf))


def _register_dataclass(cls: type[Any]) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))

    def flatten(instance: Any) -> tuple[list[Any], tuple[str, ...]]:
        present = tuple(name for name in names if hasattr(instance, name))
        return [getattr(instance, name) for name in present], present

    def unflatten(present: Any, children: Any) -> Any:
        instance: Any = object.__new__(cls)
        for name, child in zip(present, children, strict=True):
            object.__setattr__(instance, name, child)  # past the guard of frozen dataclasses
        return instance

    with _registration:
        if cls not in _seen_dataclasses:
            optree.register_pytree_node(cls, flatten, unflatten, namespace=_DATACLASSES)
            _seen_dataclasses.add(cls)


def tree_unflatten(leaves: Iterable[Any], spec: TreeSpec) -> Any:
    """Puts a tree together again; torch's order of arguments.

    Args:
        leaves: as many as the structure has places.
        spec: what a flattening function returned.

    Returns:
        A new tree.

    Raises:
        ValueError: too many leaves or too few.
    """
    return optree.tree_unflatten(spec, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Returns the leaves of a tree in order."""
    return optree.tree_leaves(tree, is_leaf, none_is_leaf=True, namespace=_NAMESPACE)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """Returns the structure of a tree."""
    return optree.tree_structure(tree, is_leaf, none_is_leaf=True, namespace=_NAMESPACE)


def tree_map(function: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Applies a function to the leaves of one or several trees of the same structure.

    Args:
        function: called with one leaf of each tree.
        tree: its structure is that of the result.
        *rests: trees with the same structure, or a deeper one; dictionaries are matched by key.
        is_leaf: says of a subtree of ``tree`` that it is not to be taken apart.

    Returns:
        A tree of the results.

    Raises:
        ValueError: a tree in ``rests`` has another structure.

    Example:
        >>> tree_map(lambda a, b: (a, b), {"x": 1, "y": None}, {"y": 2, "x": 3})
        {'x': (1, 3), 'y': (None, 2)}
    """
    return optree.tree_map(function, tree, *rests, is_leaf=is_leaf, none_is_leaf=True, namespace=_NAMESPACE)


def tree_map_only(
    types_or_predicate: Types | Callable[[Any], bool],
    function: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """Applies a function to the leaves of some types, and keeps the others.

    Args:
        types_or_predicate: a type, a tuple or union of types, or a predicate that picks leaves.
        function: called with each leaf that is picked.
        tree: any tree.
        is_leaf: says of a subtree that it is not to be taken apart.

    Returns:
        A tree of the same structure.

    Raises:
        ArgumentTypeError: ``types_or_predicate`` is none of these.

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
            f"tree_map_only: the first argument picks leaves. Got {types_or_predicate!r}. "
            f"Give a type, a tuple of types, a union, or a function from a leaf to a bool."
        )
    picks: Callable[[Any], bool] = types_or_predicate
    return tree_map(lambda leaf: function(leaf) if picks(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_any_only(types: Types, predicate: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Returns whether the predicate holds for some leaf of these types; False where there is none.

    Example:
        >>> tree_any_only(int, lambda leaf: leaf > 1, [1, "a", (2,)])
        True
    """
    return any(predicate(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types))


def tree_all_only(types: Types, predicate: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Returns whether the predicate holds for all leaves of these types; True where there is none.

    Example:
        >>> tree_all_only(int, lambda leaf: leaf > 1, [1, "a", (2,)])
        False
    """
    return all(predicate(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types))


def register_pytree_node(
    cls: type[Any],
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Iterable[Any], Any], Any],
) -> None:
    """Makes instances of a class nodes of oplib's trees (not of JAX's or optree's own).

    Args:
        cls: the class; its subclasses stay leaves.
        flatten: gives the children and a hashable context from which the instance can be made again.
        unflatten: makes an instance from children and context, torch's order of arguments.

    Raises:
        ValueError: the class is registered already.

    Example:
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> register_pytree_node(Pair, lambda pair: ([pair.a, pair.b], None), lambda ab, _: Pair(*ab))
        >>> tree_leaves([Pair(1, 2), 3])
        [1, 2, 3]
    """

    def unflatten_here(context: Any, children: Any) -> Any:
        return unflatten(children, context)

    with _registration:
        optree.register_pytree_node(cls, flatten, unflatten_here, namespace=_NAMESPACE)
        if cls in _seen_dataclasses:
            optree.unregister_pytree_node(cls, namespace=_DATACLASSES)
            _seen_dataclasses.remove(cls)
        optree.register_pytree_node(cls, flatten, unflatten_here, namespace=_DATACLASSES)


def leaf_unless_list_of(types: Types, *, or_none: bool = False) -> Callable[[Any], bool]:
    """Makes the leaf test for arguments where only tuples, and lists of one kind, are structure.

    Args:
        types: what a list must hold throughout to be taken apart, such as ``Tensor``.
        or_none: whether None may stand in such a list too.

    Returns:
        A function that is False for a tuple and for such a list (an empty one included), True for all else.

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
