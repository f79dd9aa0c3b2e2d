"""The backward of a compiled call: its program, and the programs of higher derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.compilation import rename_function
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import Edge
from oplib.autograd.recording.origins import enter_node
from oplib.autograd.saved.saved_tensor import NOBODY
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box
from oplib.transforms.tracing.pruning import find_used_inputs, prune

from .call_node import CallPlan, CompiledCallBackward
from .call_trace import Trace
from .recipe import InputSource, Recipe, StateOfCall, fetch, list_sources

_new: Any = object.__new__


class Backward:
    """Makes the node of a call.

    Args:
        trace: of the call, or of its derivative.
        state: finds the operands of the call again.
    """

    def __init__(self, trace: Trace, state: StateOfCall) -> None:
        self._state = state
        self._name = trace.name
        self.specs = trace.live_specs
        self.residuals = trace.residuals
        self._paths, self._has_edge = trace.paths, trace.has_edge
        self._orders = [*trace.orders, self.specs]
        self._higher: Higher | None = None
        if self.specs:
            self._plan = CallPlan(
                self._name,
                trace.pull,
                len(trace.residuals),
                specs=self.specs,
                reached=trace.reached,
                refused=trace.refused,
            )

    def make_node(
        self,
        edges: Sequence[Edge | None],
        outputs: Sequence[Any],
        sources: Sequence[InputSource],
        recipe: Recipe,
        *,
        is_first_order: bool,
    ) -> CompiledCallBackward:
        """Makes the node of one call. Its writes are done: the trace has checked those of what it saves.

        Args:
            edges: where each gradient goes.
            outputs: of the program.
            sources: of the inputs of its jaxpr.
            recipe: what the call was made from.
            is_first_order: whether the operands are as the call has left them, so that their versions count.
        """
        node = _new(CompiledCallBackward)
        node.plan, node.paths = self._plan, self._paths
        # without gradient there is no edge, so that hooks of the leaf do not run
        node.edges = tuple([edge if has else None for edge, has in zip(edges, self._has_edge, strict=True)])
        saved: list[Any] = []
        storages: list[Storage] = []
        for is_input, number in self.residuals:
            kind, place = sources[number] if is_input else ("outputs", number)
            saved.append(fetch(recipe, (kind, place)) if is_input else outputs[number])
            is_read = is_first_order and kind == "held"
            storages.append(recipe.tensors[place]._storage if is_read else NOBODY)
        node.saved = (*saved, *storages)
        node.versions = tuple([storage.version for storage in storages])
        node.again = lambda grads: self._differentiate(recipe, edges, grads)
        return enter_node(node, modes.state)

    def _differentiate(
        self, recipe: Recipe, edges: Sequence[Edge | None], grads: Sequence[Tensor]
    ) -> list[Tensor]:
        """Returns the gradients as Tensors with a history."""
        recipe = recipe._replace(cotangents=(*recipe.cotangents, tuple(one._storage.array for one in grads)))
        if self._higher is None:
            self._higher = Higher(self._name, recipe, self._orders, self._state)
        return self._higher.run(recipe, [*edges, *map(gradient_edge, grads)])


class Higher:
    """The program of a derivative of some order: the forward with so many backwards, recorded.

    Args:
        name: of the function.
        recipe: of the call whose derivative is asked for first.
        orders: the shapes of the cotangents.
        state: finds the operands of the call again.
    """

    def __init__(
        self, name: str, recipe: Recipe, orders: Sequence[Sequence[Any]], state: StateOfCall
    ) -> None:
        trace, storages = state.trace(name, recipe, orders)
        count = len(trace.candidates.generators)
        self._sources = list_sources(storages, count, len(recipe.arrays), orders)
        used = find_used_inputs(trace.closed.jaxpr)
        self._inputs = [source for source, use in zip(self._sources, used, strict=True) if use]
        self._run = jax.jit(rename_function(prune(trace.closed, used), f"{name}_derivative"))
        self._gradients = trace.gradients
        self._backward = Backward(trace, state)

    def run(self, recipe: Recipe, edges: Sequence[Edge | None]) -> list[Tensor]:
        """Returns the gradients of one call, with a history where they have one."""
        outputs = self._run(*[fetch(recipe, source) for source in self._inputs])
        node = None
        if self._backward.specs:
            make = self._backward.make_node
            node = make(edges, outputs, self._sources, recipe, is_first_order=False)
        gradients: list[Tensor] = []
        for output, slot in self._gradients:
            gradient = box(outputs[output])
            if slot is not None:
                gradient._requires_grad, gradient._grad_fn, gradient._output_nr = True, node, slot
            gradients.append(gradient)
        return gradients
