"""Hooks that get each new node of a thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from oplib.errors import AutogradError
from oplib.hooks import require_parameters
from oplib.modes import enter_block, leave_block, modes


@contextmanager
def node_creation_hook(hook: Callable[[Any], None]) -> Generator[None]:
    """Calls a hook with each node that a block of code makes in this thread.

    The hook gets a node once, when it is complete: it may read its edges and saved values, write into its
    ``metadata``, and register hooks on it. The accumulator of a leaf counts when it is made, and comes before
    the first node that leads to it. Nodes of a backward with ``create_graph`` and of a repeated checkpoint
    count too. Of a call of ``oplib.jit`` or ``oplib.vmap`` the hook gets the nodes outside. Nested blocks
    call their hooks from the outside in.

    Args:
        hook: receives a Node. It must make no node.

    Raises:
        GradientTypeError: the hook does not take one argument.
        AutogradError: the hook has made a node.

    Source:
        ``torch.autograd.graph.node_creation_hook`` of torch 2.14.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import node_creation_hook
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> with node_creation_hook(lambda node: print(node.name())):
        ...     y = (x * x).sum()
        oplib::autograd::AccumulateGrad
        MulBackward0
        SumBackward0
    """
    require_parameters(hook, "node_creation_hook: the hook", "node")
    state = enter_block()
    state.creation_hooks += (hook,)
    state.watchers += 1
    try:
        yield
    finally:
        state.creation_hooks = state.creation_hooks[:-1]
        state.watchers -= 1
        leave_block(state)


def tell_creation(node: Any) -> None:
    """Calls the hooks with a node, which is complete. Nodes inside of a map are made again outside of it."""
    state = modes.state
    hooks = state.creation_hooks
    if state.map_levels or not hooks:
        return
    _ = node.edges  # makes the accumulators, which come first
    state.creation_hooks = (_refuse,)
    try:
        for hook in hooks:
            hook(node)
    finally:
        state.creation_hooks = hooks


def _refuse(node: Any) -> None:
    raise AutogradError(
        f"node_creation_hook: the hook makes a node itself. Got {node.name()}. Compute on tensor.detach(), "
        "or under oplib.no_grad()."
    )
