"""The classes whose instances are nodes of trees, in two namespaces of optree."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import optree

NAMESPACE = "oplib"
DATACLASSES = "oplib.dataclasses"  # a second namespace: plain dataclasses and JAX's nodes are nodes too

# Open for the life of the process: optree offers the setting only as a context manager.
_insertion_order = contextlib.ExitStack()
for _name in (NAMESPACE, DATACLASSES):
    _insertion_order.enter_context(optree.dict_insertion_ordered(True, namespace=_name))
atexit.register(_insertion_order.close)

_registration = threading.RLock()
_seen_nodes: set[type[Any]] = set()  # the classes that only register_seen has registered


def register_pytree_node(
    cls: type[Any],
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Iterable[Any], Any], Any],
) -> None:
    """Makes instances of a class nodes of oplib's trees, but not of JAX's or optree's.

    Args:
        cls: the class; its subclasses stay leaves.
        flatten: returns the children, and a hashable context from which the instance can be rebuilt.
        unflatten: makes an instance from children and context, in torch's order of arguments.

    Raises:
        ValueError: the class is registered already.

    Example:
        >>> from oplib.pytree import tree_leaves
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
        optree.register_pytree_node(cls, flatten, unflatten_here, namespace=NAMESPACE)
        if cls in _seen_nodes:
            optree.unregister_pytree_node(cls, namespace=DATACLASSES)
            _seen_nodes.remove(cls)
        optree.register_pytree_node(cls, flatten, unflatten_here, namespace=DATACLASSES)


def register_seen(
    cls: type[Any], flatten: Callable[[Any], Any], unflatten: Callable[[Any, Any], Any]
) -> None:
    """Registers a dataclass or a node of JAX when it is first seen, in the second namespace only."""
    with _registration:
        if cls not in _seen_nodes:
            optree.register_pytree_node(cls, flatten, unflatten, namespace=DATACLASSES)
            _seen_nodes.add(cls)
