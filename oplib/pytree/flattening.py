"""Flattening trees, rebuilding them, and functions of their leaves."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import jax
import optree

from oplib.errors import ArgumentTypeError, describe

from .cycles import explain_depth
from .registry import DATACLASSES, NAMESPACE, register_seen

_flatten_by_jax = jax.tree_util.default_registry.flatten_one_level  # None for a leaf
leaf_classes: weakref.WeakSet[type[Any]] = weakref.WeakSet([type(None)])


def note_class(leaf: Any) -> bool:
    """Registers the class of an object if the object is a node, and returns whether it is."""
    cls = type(leaf)
    if cls in leaf_classes:
        return False
    # The field table is looked up on the class, because a dataclass type in the tree is no instance.
    if hasattr(cls, "__dataclass_fields__") and _can_be_made(cls):
        _register_dataclass(cls)
    # A Tensor is a leaf here, and a node of JAX.
    elif str(cls.__module__).partition(".")[0] != "oplib" and _flatten_by_jax(leaf) is not None:
        register_seen(cls, _flatten_once, jax.tree_util.tree_unflatten)
    else:
        leaf_classes.add(cls)
        return False
    return True


def _flatten_once(node: Any) -> tuple[list[Any], Any]:
    """Returns the children of a node of JAX, and its structure."""
    return jax.tree_util.tree_flatten(node, is_leaf=lambda child: child is not node)


def _register_dataclass(cls: type[Any]) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))
    native = _find_native(cls)
    holds_items = issubclass(native, dict)

    def flatten(instance: Any) -> tuple[list[Any], tuple[tuple[str, ...], tuple[Any, ...]]]:
        present = tuple(name for name in names if hasattr(instance, name))
        fields = {name: getattr(instance, name) for name in present}
        items = dict(native.items(instance)) if holds_items else {}
        # An item that is also a field is one child: transformers' ModelOutput holds each value in both.
        own = {key: item for key, item in items.items() if key not in fields or fields[key] is not item}
        return [*fields.values(), *own.values()], (present, tuple((key, key in own) for key in items))

    def unflatten(structure: Any, children: Any) -> Any:
        present, keys = structure
        rest = iter(children)
        fields = {name: next(rest) for name in present}
        instance: Any = native.__new__(cls)
        for name, child in fields.items():
            object.__setattr__(instance, name, child)  # bypasses the guard of frozen dataclasses
        for key, is_own in keys:
            native.__setitem__(instance, key, next(rest) if is_own else fields[key])
        return instance

    register_seen(cls, flatten, unflatten)


def _find_native(cls: type[Any]) -> Any:
    """Returns the class that makes instances and sets their items: ``object`` for most."""
    return next(base for base in (OrderedDict, dict, object) if issubclass(cls, base))


def _can_be_made(cls: type[Any]) -> bool:
    """Whether an instance can be made without calling the class: not if it is also a list, say."""
    try:
        _find_native(cls).__new__(cls)
    except TypeError:
        return False
    return True


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
