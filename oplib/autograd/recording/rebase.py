"""Rebasing: a tensor that was written in place, its root and its views get a new history."""

from __future__ import annotations

from typing import Any

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.views import mark_stale

from .copy_slices import CopySlices
from .origins import enter_node
from .view import StaleView, refresh_history

_new: Any = object.__new__


def rebase_history(tensor: Tensor, edge: Edge | None) -> None:
    """Gives a tensor that was written in place the history of its new value.

    For a view, the root changes: it becomes the old root with a part replaced. The view and all other views
    of this root look up their history when it is next read.

    Args:
        tensor: the written tensor, which has passed the checks.
        edge: the node that made the new value, and its output; None for a value without history.
    """
    root = tensor._root
    if root is None:
        take_over(tensor, edge or (enter_node(Overwritten.make(tensor), modes.state), 0))
        if tensor._views is not None:
            mark_stale(tensor, StaleView, restricted_only=False)
        return
    storage: Any = tensor._storage
    edges = (gradient_edge(root), edge)
    chain, starts, whole = storage.path
    copied = CopySlices.make(chain, starts, whole.dtype, edges)
    node = enter_node(copied, modes.state)
    take_over(root, (node, 0))
    mark_stale(root, StaleView, restricted_only=False)
    tensor._backward_hooks = None
    if tensor._retains_grad:
        refresh_history(tensor)


def note_write(tensor: Tensor) -> None:
    """Marks views that may not be rebased, after a write that the tape does not record."""
    root = tensor if tensor._root is None else tensor._root
    if root._views is not None:
        mark_stale(root, StaleView, restricted_only=True)


def take_over(tensor: Tensor, edge: Edge) -> None:
    """Gives a tensor another edge.

    Registered hooks stay with the gradient of the old value. A retained gradient belongs to the tensor, and
    so to the new value.
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
    """A node at which gradients end: the new value of the tensor depends on no tensor that requires grad."""

    has_one_slot = True
    results_are_checked = True
    follows_jax = True

    @staticmethod
    def make(tensor: Tensor) -> Overwritten:
        """Makes the node of a tensor. The caller numbers it."""
        node = _new(Overwritten)
        spec = tensor._storage.spec
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(spec.shape), spec.dtype),)
        return node

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  no edges
        return ()

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: ARG002, D102  it has none
        return Overwritten.class_token

    def find_function(self, given: Mask) -> ArrayFunction:  # noqa: ARG002, D102  described in TapeNode
        return ArrayFunction(lambda *grads: (), "Overwritten")  # noqa: ARG005  gradients end here
