"""The nodes of a graph: collected without recursion, and sorted as the engine runs them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from jax.tree_util import tree_flatten_with_path

from oplib.autograd.graph import Node
from oplib.errors import ArgumentTypeError, GradientTypeError, describe
from oplib.tensor import Tensor

Edges: TypeAlias = Sequence[tuple[Node | None, int]]


def list_tensors(tensor_or_tensors: Any, caller: str, name: str = "tensor_or_tensors") -> list[Tensor]:
    """Returns one Tensor, or a list or tuple of them, as a list.

    Raises:
        GradientTypeError: there is something else.
    """
    tensors = list(tensor_or_tensors) if isinstance(tensor_or_tensors, (list, tuple)) else [tensor_or_tensors]
    require_tensors(tensors, caller, name)
    return tensors


def require_tensors(values: Iterable[object], caller: str, name: str) -> None:
    """Raises GradientTypeError if one of the values is no Tensor."""
    for value in values:
        if not isinstance(value, Tensor):
            raise GradientTypeError(
                f"{caller}: '{name}' holds something that is no Tensor. Got {type(value).__name__}. "
                "Pass Tensors: only they have a graph."
            )


def list_leaves(values: Any) -> list[tuple[Any, Any]]:
    """Returns the leaves of a pytree, Tensors among them, each with its path."""
    return tree_flatten_with_path(values, is_leaf=lambda value: isinstance(value, Tensor))[0]


def require_step(step: Any, caller: str) -> None:
    """Raises ArgumentTypeError for what cannot be called."""
    if not callable(step):
        raise ArgumentTypeError(
            f"{caller}: expected a function. Got {describe(step)} of type {type(step).__name__}. Give the "
            "step, and its arguments after it."
        )


# Traversal uses an explicit stack, because a graph may be a million nodes deep.


def collect_edges(roots: Iterable[Node]) -> dict[Node, Edges]:
    """Returns every reachable node with its edges."""
    waiting = list(roots)
    edges: dict[Node, Edges] = {}
    while waiting:
        node = waiting.pop()
        if node not in edges:
            edges[node] = node.next_functions
            waiting.extend(target for target, _ in edges[node] if target is not None)
    return edges


def sort_as_engine(edges: Mapping[Node, Edges]) -> list[Node]:
    """Sorts nodes so that each follows its senders; among the others the latest recorded comes first."""
    pending = dict.fromkeys(edges, 0)
    for targets in edges.values():
        for target, _ in targets:
            if target is not None:
                pending[target] += 1
    arrivals = itertools.count()  # orders nodes of equal number, which cannot be compared
    ready = [(-node._sequence_nr(), next(arrivals), node) for node in edges if not pending[node]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for target, _ in edges[node]:
            if target is None:
                continue
            pending[target] -= 1
            if not pending[target]:
                heapq.heappush(ready, (-target._sequence_nr(), next(arrivals), target))
    return order
