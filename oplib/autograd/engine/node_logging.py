"""Logging of every node that a backward pass runs, while the logger is at DEBUG; hooks on all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from oplib.autograd.nodes.edges import GradientEdge, find_node, walk_nodes
from oplib.errors import describe_dtype
from oplib.hooks import RemovableHandle
from oplib.modes import modes
from oplib.tensor import Tensor

from .engine import get_python_engine

Hook = Callable[..., Any]
_run_backward = get_python_engine().run_backward
log = logging.getLogger("oplib.autograd.graph")


def is_logging() -> bool:
    """Returns whether nodes are logged now, or get hooks of ``modes.state.node_hooks``."""
    return log.isEnabledFor(logging.DEBUG) or modes.state.node_hooks is not None


def register_logging_hooks(t_outputs: Iterable[Tensor | GradientEdge | None]) -> Callable[[], None]:
    """Logs each node behind tensors whenever it runs, at DEBUG.

    Args:
        t_outputs: tensors or gradient edges; those outside the graph are skipped.

    Returns:
        A function that removes all these hooks.
    """
    return _register(t_outputs, (_log_node,), ())


def _register(
    t_outputs: Iterable[Tensor | GradientEdge | None], before: Sequence[Hook], after: Sequence[Hook]
) -> Callable[[], None]:
    roots = [find_node(output) for output in t_outputs if output is not None]
    handles: list[RemovableHandle] = []
    for node in walk_nodes(root for root in roots if root is not None):
        handles += map(node.register_prehook, before)
        handles += map(node.register_hook, after)

    def unregister_hooks() -> None:
        for handle in handles:
            handle.remove()

    return unregister_hooks


def engine_run_backward(t_outputs: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
    """Runs the engine, and logs every node that runs while the logger is at DEBUG."""
    if not is_logging():
        return _run_backward(t_outputs, *args, **kwargs)
    outputs = t_outputs if isinstance(t_outputs, tuple) else ()  # pyright: ignore[reportUnnecessaryIsInstance]  the engine reports other types
    hooks = modes.state.node_hooks
    before = [*([_log_node] if log.isEnabledFor(logging.DEBUG) else ()), *([hooks[0]] if hooks else ())]
    unregister_hooks = _register(
        [output for output in outputs if isinstance(output, (Tensor, GradientEdge))],
        before,
        [hooks[1]] if hooks else [],
    )
    try:
        return _run_backward(t_outputs, *args, **kwargs)
    finally:
        unregister_hooks()


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
