"""The kinds of hooks that a node can have: two lists, which the engine and all that look at nodes read.

A kind is entered once, by the module that runs its hooks. Then the engine runs them, compiled autograd
computes the gradients that they read, and ``oplib.vmap`` traces them with their node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .node import TapeNode


class HookKind(NamedTuple):
    """One kind of hooks.

    Attributes:
        exists: returns something true if a node has such hooks.
        run: runs them. Before a node ``(node, gradients, run) -> gradients``, after it ``(node, results,
            gradients, run) -> results``.
        is_of_tensor: they belong to the outputs of the node, and run even if the node does not.
        is_python: they run code of users. Others only store gradients.
    """

    exists: Callable[[Any], Any]
    run: Callable[..., Any]
    is_of_tensor: bool = False
    is_python: bool = True


before: list[HookKind] = []
"""The kinds that run before a node, in this order."""

after: list[HookKind] = []
"""The kinds that run after a node, in this order."""


def runs_python(node: TapeNode, kinds: list[HookKind]) -> bool:
    """Returns whether hooks of some of these kinds run code of users at a node."""
    return node.has_hooks and any(kind.is_python and kind.exists(node) for kind in kinds)
