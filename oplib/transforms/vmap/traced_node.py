"""Nodes of a map that run Python: their backward is traced while their values are valid.

This serves Functions of users, nodes with hooks, and all nodes without a formula. Their backward runs once,
for one example, when the mapped function returns. The backward pass maps the resulting program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from oplib.autograd.array_functions.array_function import ArrayFunction, BackwardPlan, Mask, has_gradient
from oplib.autograd.engine.node_hooks import run_post_hooks, run_pre_hooks
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.engine.run import Run
from oplib.autograd.engine.validation import validate_results
from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.gradient_representation import ARRAYS, choose_representation
from oplib.autograd.nodes.hook_kinds import after, runs_python
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.autograd.recording.formula_node import NOBODY, FormulaNode
from oplib.autograd.saved.saved_tensor import link, second_pass_error
from oplib.autograd.user_functions.node import BackwardCFunction
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.tensor import Storage, Tensor

from .mapped_input import MappedInput
from .mapped_plan import batch_shape, map_backward
from .spliced_node import SplicedNode

_new: Any = object.__new__


@dataclass(frozen=True, slots=True)
class TracedBackward:
    """The backward of one node for one example, as a jaxpr.

    Attributes:
        jaxpr: takes its constants, the saved tensors, and the gradients of all slots that have one; None if a
            value that it would read is freed.
        constants: the values that it reads and that no node has saved.
        saved: the arguments of ``save_for_backward`` of a Function.
        saved_edges: the edge of each inside.
        wanted: whether each edge receives a gradient.
        differentiable: whether each slot receives a gradient.
        slots: the shape and dtype of each; None if it receives no gradient.
        is_complete: whether every value that it reads, and that has a history, is saved.
    """

    jaxpr: Any
    constants: tuple[Any, ...]
    saved: tuple[Any, ...]
    saved_edges: tuple[Edge | None, ...]
    wanted: Mask
    differentiable: Mask
    slots: tuple[Any, ...]
    is_complete: bool = True

    @property
    def values(self) -> tuple[Any, ...]:
        """All values that it reads except gradients, in the order of the jaxpr."""
        return (*self.constants, *self.saved)


class _SavedValue:
    """A placeholder for one saved tensor while the backward is traced."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def unpack(self, node: TapeNode) -> Tensor:  # noqa: ARG002  same signature as SavedTensor
        return ARRAYS.box(self._array)


def trace_node(node: TapeNode) -> TracedBackward:
    """Traces the backward of a node with its hooks, while the map that recorded it is active."""
    slots = tuple(
        None if one is None or not has_gradient(one.dtype) else jax.ShapeDtypeStruct(one.shape, one.dtype)
        for one in node.input_metadata
    )
    differentiable = tuple(slot is not None for slot in slots)
    if isinstance(node, BackwardCFunction) and node._saved is None:
        return TracedBackward(None, (), (), (), (False,) * len(node.edges), differentiable, slots)
    saved, edges = _read_saved(node)
    wanted: list[bool] = []

    def run(given: Sequence[Any], *, create_graph: bool) -> Sequence[Any]:
        rest = iter(given[len(saved) :])
        grads = [None if slot is None else next(rest) for slot in slots]
        with _reading(node, given[: len(saved)]):
            return run_alone(node, grads, create_graph=create_graph)

    def run_once(*given: Any) -> list[Any]:
        results = run(given, create_graph=False)
        wanted.extend(result is not None for result in results)
        return [result for result in results if result is not None]

    def run_recorded(*given: Any) -> None:
        results = run([*given[: len(saved)], *map(ARRAYS.box, given[len(saved) :])], create_graph=True)
        histories.extend(result._requires_grad for result in results if result is not None)

    shapes = [jax.typeof(value) for value in saved]
    shapes += [slot for slot in slots if slot is not None]
    closed = jax.make_jaxpr(run_once)(*shapes)
    histories = [isinstance(one, Tracer) for one in closed.consts if _may_have_history(one)]
    if histories and not any(histories) and isinstance(node, BackwardCFunction):
        # The backward made them, as by oplib.zeros(1), or they are of tensors from outside of the map.
        histories.clear()
        jax.eval_shape(run_recorded, *shapes)
    return TracedBackward(
        closed.jaxpr,
        tuple(closed.consts),
        saved,
        edges,
        tuple(wanted),
        differentiable,
        slots,
        is_complete=not any(histories),
    )


def _may_have_history(constant: Any) -> bool:
    """Whether a value could have a gradient. A Python number is also a constant, but a weakly typed one."""
    return has_gradient(constant.dtype) and not jax.typeof(constant).weak_type


def _read_saved(node: TapeNode) -> tuple[tuple[Any, ...], tuple[Edge | None, ...]]:
    """Returns the tensors that a Function has saved, and their edges; none for other nodes."""
    if not isinstance(node, BackwardCFunction):
        return (), ()
    tensors = [tensor for tensor in node.saved_tensors if tensor is not None]
    edges = tuple(gradient_edge(tensor) for tensor in tensors)
    return tuple(tensor._storage.array for tensor in tensors), edges


@contextmanager
def _reading(node: TapeNode, arrays: Sequence[Any]) -> Generator[None]:
    """Makes a Function read these arrays as its saved values."""
    if not isinstance(node, BackwardCFunction) or not arrays:
        yield
        return
    saved: Any = node._saved
    rest = iter(arrays)
    stand_ins: Any = tuple(None if one is None else _SavedValue(next(rest)) for one in saved)
    node._saved = stand_ins
    try:
        yield
    finally:
        node._saved = saved


def run_alone(node: TapeNode, grads: list[Any], *, create_graph: bool = False) -> Sequence[Any]:
    """Runs one node with its hooks, as the engine does, and no further node."""
    representation = choose_representation(create_graph=create_graph)
    run = Run(RunPlan(()), representation, keep_graph=True, create_graph=create_graph)
    state = modes.state
    outer, grad_mode = state.run, state.grad_enabled
    try:
        state.run, run.node, state.grad_enabled = run, node, create_graph
        if node.has_hooks:
            grads = run_pre_hooks(node, grads, run)
        if isinstance(node, (AccumulateGrad, MappedInput, SplicedNode)):
            return _end_at_hooks(node, grads)
        results = node.apply(grads, run)[: len(node.edges)]
        if not node.results_are_checked:
            results = validate_results(results, node, run.representation)
        return run_post_hooks(node, results, grads, run) if node.has_hooks else results
    finally:
        state.run, state.grad_enabled = outer, grad_mode


def _end_at_hooks(node: TapeNode, grads: list[Any]) -> list[Any]:
    """Traces only the hooks before a node whose graph continues outside."""
    if runs_python(node, after):
        raise AutogradError(
            f"{node.name()}: a hook of a node was registered inside vmap where the graph goes on outside. It "
            "would receive gradients of one example after a call with gradients of all. Use "
            "tensor.register_hook."
        )
    return grads


class TracedPlan(BackwardPlan):
    """The plan of a traced backward, mapped."""

    __slots__ = ("_function", "_name")

    def __init__(
        self, traced: TracedBackward, name: str, size: int, *, residuals: Mask, targets: Mask
    ) -> None:
        super().__init__(traced.wanted, (), ())
        self.outputs = tuple(None if slot is None else batch_shape(slot, size) for slot in traced.slots)
        self.differentiable = traced.differentiable
        first_extra = len(traced.wanted) + len(self.outputs)
        self.set_sources(range(first_extra, first_extra + len(residuals)))
        self._function = map_backward(_spread(traced), size, residuals, targets)
        self._name = name

    def backward(self, given: Mask) -> ArrayFunction:
        """Fills in zeros for absent gradients. It is not compiled, because it is called once."""
        count = len(self.sources)

        def filled(*arrays: Any) -> tuple[Any, ...]:
            rest = iter(arrays[count:])
            grads = [
                next(rest) if has else None if shape is None else jnp.zeros(shape.shape, shape.dtype)
                for has, shape in zip(given, self.outputs, strict=True)
            ]
            return self._function(*arrays[:count], *(grad for grad in grads if grad is not None))

        return ArrayFunction(filled, self._name, compiled=False)


def _spread(traced: TracedBackward) -> Callable[..., tuple[Any, ...]]:
    """Returns the jaxpr as a function of values and gradients. It gives None for unwanted gradients."""
    count = len(traced.constants)

    def spread(*arrays: Any) -> tuple[Any, ...]:
        results = iter(jaxpr_as_fun(ClosedJaxpr(traced.jaxpr, arrays[:count]))(*arrays[count:]))
        return tuple(next(results) if want else None for want in traced.wanted)

    return spread


class TracedNode(FormulaNode):
    """The outer node of a node that runs Python.

    Attributes:
        saved_edges: the edge outside of each saved tensor.
    """

    _traced: TracedBackward
    _name: str = "TracedNode"
    saved_edges: tuple[Edge | None, ...] = ()

    def name(self) -> str:  # noqa: D102
        return self._name

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: ARG002, D102  each call has a jaxpr of its own
        if self.saved is None:
            raise second_pass_error(self._name)

    def fill(self, values: Sequence[Any], size: int, *, residuals: Mask, targets: Mask) -> None:
        """Sets the values that the jaxpr reads."""
        self.plan = TracedPlan(self._traced, self._name, size, residuals=residuals, targets=targets)
        self.saved = None if self._traced.jaxpr is None else (*values, *([NOBODY] * len(values)))

    def linked_residuals(self) -> list[Tensor]:
        """Returns the values that the jaxpr reads as tensors. Saved ones have history."""
        if self.saved is None:
            raise second_pass_error(self._name)
        links, arrays, _ = self._link_residuals()
        tensors = list(map(ARRAYS.box, arrays))
        for tensor, edge in zip(tensors, links, strict=True):
            if edge is not None:
                link(tensor, edge)
        return tensors

    def _link_residuals(self) -> tuple[list[Edge | None], list[Any], list[Storage]]:
        arrays: Any = self.saved
        count = len(self.plan.sources)
        others: list[Edge | None] = [None] * (count - len(self.saved_edges))
        return [*others, *self.saved_edges], list(arrays[:count]), list(arrays[count:])

    def _apply_recorded(self, grads: Sequence[Any], given: Mask) -> Sequence[Any]:
        """Records the jaxpr. If it reads a value that was not saved, part of its derivative would be lost."""
        if self._traced.is_complete:
            return super()._apply_recorded(grads, given)
        raise AutogradError(
            f"{self._name}: it was recorded inside vmap, and its backward reads tensors that "
            "save_for_backward was not given. Their history is lost outside, so with create_graph=True the "
            "second gradient would be wrong. Save them, or differentiate twice inside vmap."
        )


def make_traced_node(node: TapeNode, traced: TracedBackward) -> TracedNode:
    """Makes the outer node of a node, without values."""
    made: TracedNode = _new(TracedNode)
    made._traced = traced
    made._name = node.name()
    made.sequence_nr = modes.sequence_nr if isinstance(node, AccumulateGrad) else node.sequence_nr
    made._metadata = node._metadata
    return made
