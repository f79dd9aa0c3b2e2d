"""Rebasing: a tensor that was written in place, its root and its views get a new history."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.config import config
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor
from oplib.tensor.devices.layout import are_single
from oplib.tensor.storage.fresh import buffers
from oplib.tensor.views import Chain, Starts, mark_stale

from .formula_node import FormulaNode, call_recorded
from .origins import enter_node
from .view import StaleView, refresh_history, take_over
from .view_node import ViewNode, make_tape_function, with_starts, with_starts_first

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
        if tensor._views is not None or tensor._restricted_views is not None:
            mark_stale(tensor, StaleView, restricted_only=False)
        if edge is None:
            tell_creation(tensor._grad_fn)
        return
    storage: Any = tensor._storage
    chain, starts, whole = storage.path
    with buffers:  # another thread may write another view of the root
        copied = CopySlices.make(chain, starts, whole.dtype, (gradient_edge(root), edge))
        node = enter_node(copied, modes.state)
        take_over(root, (node, 0))
        mark_stale(root, StaleView, restricted_only=False)
    tensor._backward_hooks = None
    tell_creation(node)
    copied.written = weakref.ref(tensor)
    if tensor._retains_grad:
        refresh_history(tensor)


def note_write(tensor: Tensor) -> None:
    """Marks views that may not be rebased, after a write that the tape does not record."""
    root = tensor if tensor._root is None else tensor._root
    if root._restricted_views is not None:
        mark_stale(root, StaleView, restricted_only=True)


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

    def find_function(self, present: Mask) -> ArrayFunction:  # noqa: ARG002, D102  described in TapeNode
        return ArrayFunction(lambda *grads: (), "Overwritten")  # noqa: ARG005  gradients end here


class CopySlices(TapeNode):
    """The step between the new root of a view and the root before the write.

    The new root is the old root with a part replaced. So the gradient of the old root is the gradient of the
    new root with zeros in this part, and the gradient of the part is the part of it. Nothing is saved. The
    first edge leads to the old root, the second to the value that was written.

    Attributes:
        chain: the chain from the root to the view.
        starts: the starts of its windows.
        dtype: the dtype of the root.
        written: the view, whose history the root can no longer tell after ``detach_``.
    """

    results_are_checked = True
    follows_jax = True
    has_one_slot = True

    chain: Chain
    starts: Starts
    dtype: Any
    written: weakref.ref[Tensor]

    @staticmethod
    def make(chain: Chain, starts: Starts, dtype: Any, edges: tuple[Edge | None, Edge | None]) -> CopySlices:
        """Makes the node of one write. The caller numbers it."""
        node: CopySlices = _new(CopySlices)
        node.chain, node.starts, node.dtype, node.edges = chain, starts, dtype, edges
        return node

    def name(self) -> str:  # noqa: D102  described in Node
        return "oplib::autograd::CopySlices"

    @property
    def input_metadata(self) -> Sequence[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The shape and dtype of the root."""
        return (jax.ShapeDtypeStruct(self.chain.in_shape, self.dtype),)

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Splits the gradient between the old root and the written value."""
        (grad,) = grads
        if grad is None:
            return (None, None)
        if run.representation.tensor_mode:
            return call_recorded(self._function, with_starts([grad], self.starts))
        operands: list[Any] = []
        function = self._take_write(run, operands) if are_single(grad) else None
        if function is None:
            return self.chain.run(*self._split, self.starts, grad)
        pull = partial(_pull_through, function.function)
        return (self.chain.run(function.token, pull, self.starts, grad, *operands),)

    def _take_write(self, run: BackwardRun, operands: list[Any]) -> ArrayFunction | None:
        """Takes the nodes of the write out of the run, if they lead nowhere but back to the old root.

        Args:
            run: the run.
            operands: receives the arrays that the formula of the write reads.

        Returns:
            The formula, from the gradient of the new value to that of the old one; None if the nodes run.
        """
        old, new = self.edges
        write: Any = new and new[0]
        if FormulaNode not in write.__class__.__mro__ or True in write.plan.wanted[1:] or self.has_hooks:
            return None
        view: Any = write.edges[0] and write.edges[0][0]
        if (
            ViewNode not in view.__class__.__mro__
            or view.edges[0] != old
            or view.chain is not self.chain
            or view.starts != self.starts
            or not (self.chain.is_strided and config.compile_kernels)
        ):
            return None
        function = write.find_function((True,))
        is_read = function is not None and write.read_operands(operands) is not None
        return function if is_read and run.skip(new, write, view) else None

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: D102  described in TapeNode
        if self.starts:
            operands.append(self.starts)
        return CopySlices.class_token, self.chain, self.dtype, self._split[0]

    def find_function(self, present: Mask) -> ArrayFunction:  # noqa: ARG002, D102  described in TapeNode
        return with_starts_first(self._function)

    @property
    def _split(self) -> tuple[Mask, AnyFunction]:
        """Whether each edge has a gradient, and the function of these."""
        wanted = tuple(map(bool, self.edges))
        return wanted, partial(_split, *wanted)

    @property
    def _function(self) -> ArrayFunction:
        return make_tape_function(self.chain, *self._split, "CopySlices")


def _pull_through(formula: AnyFunction, chain: Chain, grad: Any, *rest: Any) -> Any:
    *operands, starts = rest
    return chain.put(grad, formula(*operands, chain.get(grad, starts))[0], starts)


def _split(keeps_old: bool, keeps_new: bool, chain: Chain, grad: Any, starts: Any) -> tuple[Any, Any]:
    zeros = jnp.zeros((), chain.part_dtype(grad.dtype))
    return (
        chain.put(grad, zeros, starts) if keeps_old else None,
        chain.get(grad, starts) if keeps_new else None,
    )
