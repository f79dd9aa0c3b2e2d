"""A new history for a tensor that was written in place, its root and its views."""

from __future__ import annotations

from typing import Any

import jax

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.tensor import Tensor
from oplib.tensor.views import mark_stale

from .copy_slices import CopySlices
from .origins import enter_node
from .view import StaleView, refresh_history

_new: Any = object.__new__


def rebase_history(tensor: Tensor, edge: Edge | None) -> None:
    """Gives a tensor that was written in place the place on the tape of its new value.

    For a view it is its root that changes: to what it was, with a part put in. The view and all others of
    that root look their history up anew when they are next asked for it.

    Args:
        tensor: what was written; it may be.
        edge: the node that made the new value, and which of its outputs it is; None for one without history.
    """
    root = tensor._root
    if root is None:
        take_over(tensor, edge or (enter_node(Overwritten.make(tensor)), 0))
        if tensor._views is not None:
            mark_stale(tensor, StaleView, restricted_only=False)
        return
    storage: Any = tensor._storage
    edges = (gradient_edge(root), edge)
    node = enter_node(CopySlices.make(storage.chain, storage.starts, storage.base.spec.dtype, edges))
    take_over(root, (node, 0))
    mark_stale(root, StaleView, restricted_only=False)
    tensor._backward_hooks = None
    if tensor._retains_grad:
        refresh_history(tensor)


def note_write(tensor: Tensor) -> None:
    """Lets the views that may not be rebased know of a write that the tape does not record."""
    root = tensor if tensor._root is None else tensor._root
    if root._views is not None:
        mark_stale(root, StaleView, restricted_only=True)


def take_over(tensor: Tensor, edge: Edge) -> None:
    """Gives a tensor another place on the tape.

    Hooks that were registered stay with the gradient that they were registered for, that of the old value; a
    retained gradient is that of the tensor, and so of the new one.
    """
    before: Any = tensor._grad_fn
    node, slot = edge
    if before is not None and tensor._retains_grad:
        before._retained.pop(tensor._output_nr, None)
    tensor._requires_grad = True
    tensor._grad_fn = node
    tensor._output_nr = slot
    tensor._backward_hooks = None
    if tensor._retains_grad:
        node.retain_grad(tensor)


class Overwritten(TapeNode):
    """Where a gradient ends: the tensor required one, and its new value depends on nothing that does."""

    has_one_slot = True
    results_are_checked = True

    @staticmethod
    def make(tensor: Tensor) -> Overwritten:
        """Makes the node of a tensor; whoever calls numbers it."""
        node = _new(Overwritten)
        spec = tensor._storage.spec
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(spec.shape), spec.dtype),)
        return node

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  there is nobody to give it to
        return ()
