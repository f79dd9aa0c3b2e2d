"""Calls inside of a map that run outside of it on whole batches, and their nodes.

The static ``vmap`` of a Function is such a call. It receives the arguments of all examples, as Tensors of the
outer level, and its operations are recorded there at once. The history of its arguments is not yet recorded
there, so each argument gets a placeholder, whose edge is set when the mapped function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.engine.backward_and_grad import grad as find_gradients
from oplib.autograd.grad_mode import enable_grad
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.autograd.recording.origins import number_node
from oplib.library.carrier.unmapped_values import UnmappedValue, call_unmapped
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.storage.map_level import MapLevel, run_in_levels

from .dims import repeat, with_batch

_new: Any = object.__new__
Function = Callable[[list[Tensor], list[bool]], list[Tensor]]


class Placeholder(TapeNode):
    """Passes gradients on to an edge that is set later."""

    results_are_checked = True
    follows_jax = True
    has_one_slot = True

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102
        return grads


class SplicedNode(TapeNode):
    """The node, inside of a map, of a call that was recorded outside.

    Attributes:
        tensors: the arguments of the call.
        placeholders: the placeholder of each argument outside; None if it needs no gradient.
        outer_edges: the edge outside of each result; None if it has none.
        function: the called function.
        level: the map.
    """

    follows_jax = True

    tensors: Sequence[Tensor]
    placeholders: Sequence[Placeholder | None]
    outer_edges: Sequence[Edge | None]
    function: Function
    level: MapLevel

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Takes gradients of each example while the map is going on: runs the call again, and backwards."""
        slots = [slot for slot, grad in enumerate(grads) if grad is not None]
        wanted = [index for index, placeholder in enumerate(self.placeholders) if placeholder is not None]
        boxed = [run.representation.box(grads[slot]) for slot in slots]
        count = len(self.tensors)

        def pull(tensors: list[Tensor], batched: list[bool]) -> list[Tensor]:
            size = self.level.size
            every = [
                tensor if own else repeat(tensor, size) for tensor, own in zip(tensors, batched, strict=True)
            ]
            with enable_grad():
                inputs = [
                    tensor if tensor._requires_grad else tensor.detach().requires_grad_(index in wanted)
                    for index, tensor in enumerate(every[:count])
                ]
                outputs = self.function(inputs, [True] * count)
                gradients = find_gradients(
                    [outputs[slot] for slot in slots],
                    [inputs[index] for index in wanted],
                    every[count:],
                    create_graph=run.create_graph,
                    materialize_grads=True,
                )
            return list(gradients)

        results = iter(call_spliced(self.level, pull, [*self.tensors, *boxed]))
        return [
            None if placeholder is None else run.representation.unbox(next(results))
            for placeholder in self.placeholders
        ]


def call_spliced(level: MapLevel, function: Function, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Calls a function of whole batches with the Tensors of one example.

    Args:
        level: the active map.
        function: receives Tensors of the outer level, with the batch in front if the flag beside it is set.
            It returns Tensors with the batch in front.
        tensors: the Tensors inside of the map.

    Returns:
        The results inside of the map, with history.
    """
    node = (
        _new(SplicedNode) if modes.grad_enabled and any(tensor._requires_grad for tensor in tensors) else None
    )
    placeholders: list[Placeholder | None] = []
    outer: list[Tensor] = []

    def run(values: list[UnmappedValue]) -> list[Any]:
        stack = modes.state.map_levels
        run_in_levels(stack[: stack.index(level)], run_outside, values)
        return [tensor._storage.array for tensor in outer]

    def run_outside(values: list[UnmappedValue]) -> None:
        opened = [
            _open(tensor, value, level, recording=node is not None)
            for tensor, value in zip(tensors, values, strict=True)
        ]
        placeholders.extend(placeholder for _, _, placeholder in opened)
        outer.extend(function([box for box, _, _ in opened], [batched for _, batched, _ in opened]))

    arrays = call_unmapped(level.index, [tensor._storage.array for tensor in tensors], run)
    results = [ARRAYS.box(array) for array in arrays]
    if node is not None:
        node.function, node.level, node.tensors, node.placeholders = function, level, tensors, placeholders
        _attach(node, results, outer)
    return results


def _open(
    tensor: Tensor, value: UnmappedValue, level: MapLevel, *, recording: bool
) -> tuple[Tensor, bool, Placeholder | None]:
    """Makes the Tensor outside for one inside. Returns it, whether it has the batch, and its placeholder."""
    made: Any = tensor._grad_fn
    if not value.is_batched and made is not None and made.sequence_nr >= level.first_node:
        # It was recorded inside, so gradients have the batch, though the value is the same in all examples.
        value = with_batch(value, level.size)
    box, placeholder = ARRAYS.box(value.array), None
    if recording and tensor._requires_grad:
        placeholder = _new(Placeholder)
        placeholder.input_metadata = (jax.typeof(value.array),)
        number_node(placeholder, modes.state)
        box._requires_grad, box._grad_fn = True, placeholder
    return box, value.is_batched, placeholder


def _attach(node: SplicedNode, results: Sequence[Tensor], outer: Sequence[Tensor]) -> None:
    """Makes a node the node of the results of a call."""
    node.edges = tuple(gradient_edge(tensor) for tensor in node.tensors)
    node.outer_edges = tuple(gradient_edge(tensor) for tensor in outer)
    node.input_metadata = tuple(jax.typeof(tensor._storage.array) for tensor in results)
    number_node(node, modes.state)
    for slot, (result, edge) in enumerate(zip(results, node.outer_edges, strict=True)):
        if edge is not None:
            result._requires_grad, result._grad_fn, result._output_nr = True, node, slot
