"""Paths: where the leaves of a tree stand. They are optree's accessors, under torch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import optree

from .flattening import IsLeaf, TreeSpec, tree_flatten

KeyPath: TypeAlias = tuple[Any, ...]


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Flattens a tree as :func:`tree_flatten`, and gives each leaf with its path.

    Example:
        >>> leaves, spec = tree_flatten_with_path({"a": [1, (2,)]})
        >>> [(keystr(path), leaf) for path, leaf in leaves]
        [("['a'][0]", 1), ("['a'][1][0]", 2)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(map(tuple, spec.accessors()), leaves, strict=True)), spec


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Returns the leaves of a tree in order, each with its path."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(function: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Maps as :func:`tree_map`. The function gets the path of the leaves first.

    Example:
        >>> tree_map_with_path(lambda path, leaf: f"{keystr(path)}={leaf}", {"a": 1, "b": [2]})
        {'a': "['a']=1", 'b': ["['b'][0]=2"]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = map(spec.flatten_up_to, rests)
    return spec.unflatten(map(function, map(tuple, spec.accessors()), leaves, *others))


def keystr(path: Iterable[Any]) -> str:
    """Returns a path as the code that reads the leaf, after the name of the tree."""
    return optree.PyTreeAccessor(path).codify("")


def key_get(tree: Any, path: Iterable[Any]) -> Any:
    """Returns what stands at a path of a tree.

    Example:
        >>> path, leaf = tree_leaves_with_path({"a": [1, 2]})[1]
        >>> key_get({"a": [3, 4]}, path), key_get({"a": [3, 4]}, path[:1])
        (4, [3, 4])
    """
    return optree.PyTreeAccessor(path)(tree)


def find_different_path(spec: TreeSpec, other: TreeSpec) -> str:
    """Returns the path of the first leaf of one structure that the other does not have."""
    ours, theirs = dict.fromkeys(spec.accessors()), dict.fromkeys(other.accessors())
    missing = [path for path in theirs if path not in ours] or [path for path in ours if path not in theirs]
    return keystr(missing[0]) if missing else ""
