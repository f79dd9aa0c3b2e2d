"""Logging of every node that a backward pass runs, while the logger is at DEBUG; hooks on all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import jax

from oplib.autograd.nodes.edges import GradientEdge, find_node, walk_nodes
from oplib.autograd.nodes.node import Edge, Node
from oplib.errors import describe_dtype
from oplib.hooks import RemovableHandle
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor

log = logging.getLogger("oplib.autograd.graph")


def register_logging_hooks(t_outputs: Iterable[Tensor | GradientEdge | None]) -> Callable[[], None]:
    """Logs each node behind tensors whenever it runs, at DEBUG.

    Args:
        t_outputs: tensors or gradient edges; those outside the graph are skipped.

    Returns:
        A function that removes all these hooks.
    """
    roots = [find_node(output) for output in t_outputs if output is not None]
    return _register(roots, (_log_node,), ())


def log_nodes(roots: Iterable[Edge]) -> Callable[[], None]:
    """Logs each node behind some edges if the logger is at DEBUG, and calls ``modes.state.node_hooks``.

    Returns:
        A function that removes all these hooks.
    """
    hooks = modes.state.node_hooks
    logged = [_log_node] if log.isEnabledFor(logging.DEBUG) else []
    before, after = ([*logged, hooks[0]], [hooks[1]]) if hooks else (logged, [])
    return _register([node for node, _ in roots], before, after)


def _register(
    roots: Iterable[Node | None], before: Iterable[AnyFunction], after: Iterable[AnyFunction]
) -> Callable[[], None]:
    before, after = tuple(before), tuple(after)
    handles: list[RemovableHandle] = []
    for node in walk_nodes(roots):
        handles += map(node.register_prehook, before)
        handles += map(node.register_hook, after)

    def unregister_hooks() -> None:
        for handle in handles:
            handle.remove()

    return unregister_hooks


def _log_node(grad_outputs: tuple[Tensor | None, ...]) -> None:
    run = modes.state.run
    node = None if run is None else run.node
    log.debug("Executing: %s with grad_outputs: [%s]", node, ",".join(map(_show, grad_outputs)))


def _show(grad: Tensor | None) -> str:
    if grad is None:
        return "None"
    aval: Any = jax.typeof(grad._storage.array)
    kind = "b8" if aval.dtype.name == "bool" else describe_dtype(aval.dtype).replace("_", "")
    return f"{kind}[{', '.join(map(str, aval.shape))}]"
