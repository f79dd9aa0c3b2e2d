"""Trees that have no end: a container that holds itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from oplib.errors import ArgumentError


def explain_depth(tree: Any, error: RecursionError) -> Exception:
    """Returns the error of a tree that cannot be flattened: where a container holds itself, or is too deep.

    Args:
        tree: lists, tuples, dictionaries and deques are looked into.
        error: what flattening raised. It is returned if the tree is neither, so a function of the user has
            raised it.

    Example:
        >>> tree = {"a": [1]}
        >>> tree["a"].append(tree)
        >>> print(explain_depth(tree, RecursionError()))
        tree: a container holds itself. Got a dict at tree['a'][1] that is tree itself. Take it out.
    """
    path = [tree]
    keys: list[str] = []
    iterators = [_list_items(tree)]
    inside = {id(tree)}
    deepest = 0
    while path:
        deepest = max(deepest, len(path))
        entry = next(iterators[-1], None)
        if entry is None:
            iterators.pop()
            inside.discard(id(path.pop()))
            del keys[-1:]
            continue
        child, key = entry
        if not _is_container(child):
            continue
        keys.append(key)
        if id(child) in inside:
            depth = next(index for index, node in enumerate(path) if node is child)
            return ArgumentError(
                f"tree: a container holds itself. Got a {type(child).__name__} at tree{''.join(keys)} that "
                f"is tree{''.join(keys[:depth])} itself. Take it out."
            )
        inside.add(id(child))
        path.append(child)
        iterators.append(_list_items(child))
    if deepest < _DEEP:
        return error
    return ArgumentError(
        f"tree: containers are nested too deeply to be flattened. Got {deepest} in each other. Use a list of "
        "the items."
    )


_DEEP = 500
"""A tree of fewer levels can be flattened: the error is one of a function that the user gave."""


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict, deque))


def _list_items(container: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(container, dict):
        return ((item, f"[{key!r}]") for key, item in container.items())
    items = container if _is_container(container) else ()
    return ((item, f"[{index}]") for index, item in enumerate(items))
