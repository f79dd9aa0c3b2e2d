"""Host steps: what runs as Python between compiled segments, with concrete gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.node import Gradients

Arrays = list[Any]


def run_host_step(kind: str, run: Run, node: Any, arguments: Sequence[Arrays]) -> Gradients:
    """Runs Python code of a node: hooks, or the node itself.

    Args:
        kind: ``pre``, ``tensor``, ``node``, ``accumulated`` or ``post``.
        run: the run.
        node: the node.
        arguments: lists of gradients.

    Returns:
        The gradients after it.
    """
    run.node = node
    return _KINDS[kind](run, node, *arguments)


def _run_tensor_hooks(run: Run, node: Any, grads: Arrays) -> Gradients:
    run.run_tensor_hooks(node, grads)
    return grads


def _run_accumulated(run: Run, node: Any) -> Gradients:  # noqa: ARG001  same signature as the others
    node.run_post_accumulate_hooks()
    return ()


_KINDS: dict[str, Callable[..., Gradients]] = {
    "pre": lambda run, node, grads: run.run_pre_hooks(node, grads),
    "tensor": _run_tensor_hooks,
    "node": lambda run, node, grads: run.compute(node, grads),
    "accumulated": _run_accumulated,
    "post": lambda run, node, results, grads: run.run_post_hooks(node, results, grads),
}


def continue_after(
    kind: str, run: Run, node: Any, arguments: Sequence[Arrays], results: Gradients
) -> Gradients:
    """Does eagerly what remains of a node after a host step, and returns the results of the node.

    Args:
        kind: the kind of the step.
        run: the run.
        node: the node.
        arguments: those of the step.
        results: of the step.
    """
    if kind == "tensor":
        for slot, index in run.plan.captures[node]:
            run.captured[index] = results[slot]
        return ()
    if kind == "pre":
        return run.run_past_pre_hooks(node, list(results))
    if kind == "node":
        return run.run_past_node(node, results, arguments[0])
    if kind == "accumulated":
        return run.run_past_node(node, (), [])
    return results
