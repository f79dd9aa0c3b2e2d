"""The backward of a compiled call: its program, and the programs of higher derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from oplib.autograd.array_functions.compilation import rename_function
from oplib.autograd.array_functions.tokens import next_token
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import Edge
from oplib.autograd.recording.origins import enter_node
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box
from oplib.transforms.captures.candidates import Candidates
from oplib.transforms.captures.places import Walk

from .node import CompiledCallBackward
from .pruning import find_used_inputs, prune
from .trace import Trace

_new: Any = object.__new__


class Recipe(NamedTuple):
    """What a call was made from, so that it can be traced again with its backward.

    Attributes:
        function: the function.
        leaves: of its arguments.
        call: runs the function; gets the arrays that stand for the array arguments.
        tensors: the operands.
        held: their arrays at the call.
        starts: key and count of each Generator at the call.
        arrays: the array arguments.
        cotangents: for each backward that was recorded since, its cotangents.
    """

    function: Any
    leaves: Sequence[Any]
    call: Callable[..., Any]
    tensors: Sequence[Tensor]
    held: Sequence[Any]
    starts: Sequence[tuple[Any, int]]
    arrays: Sequence[Any]
    cotangents: tuple[tuple[Any, ...], ...] = ()


class Backward:
    """Makes the node of a call.

    Args:
        trace: of the call, or of its derivative.
    """

    def __init__(self, trace: Trace) -> None:
        self._name = trace.name
        self.specs = trace.live_specs
        self.reached = trace.reached
        self.residuals = trace.residuals
        self._freed = trace.freed
        self._orders = [*trace.orders, self.specs]
        self._higher: Higher | None = None
        self._run: Any = None
        self._token = next_token()
        if trace.pull is not None:
            jaxpr, count = trace.pull, len(trace.residuals)

            def run(*values: Any) -> Sequence[Any]:
                return jaxpr_as_fun(ClosedJaxpr(jaxpr, values[:count]))(*values[count:])

            self._run = jax.jit(rename_function(run, f"{self._name}_backward"))

    def make_node(
        self,
        edges: Sequence[Edge | None],
        saved: Sequence[Any],
        read: Sequence[tuple[Storage, int]],
        recipe: Recipe,
    ) -> CompiledCallBackward:
        """Makes the node of one call.

        Args:
            edges: where each gradient goes.
            saved: the residuals.
            read: the storages that residuals were read from, with their versions.
            recipe: what the call was made from.
        """
        node = _new(CompiledCallBackward)
        node.function = self._name
        node.input_metadata = self.specs
        node.edges = tuple(edges)
        node.saved, node.read, node.reached = None, (), self.reached
        if not self._freed:  # without gradient there is no edge, so that hooks of the leaf do not run
            pairs = zip(edges, self.reached, strict=True)
            node.edges = tuple([edge if reached else None for edge, reached in pairs])
            node.token = self._token
            node.run, node.saved, node.read = self._run, tuple(saved), tuple(read)
            node.again = lambda grads: self._differentiate(recipe, edges, grads)
        return enter_node(node, modes.state)

    def _differentiate(
        self, recipe: Recipe, edges: Sequence[Edge | None], grads: Sequence[Tensor]
    ) -> list[Tensor]:
        """Returns the gradients as Tensors with a history."""
        recipe = recipe._replace(cotangents=(*recipe.cotangents, tuple(one._storage.array for one in grads)))
        if self._higher is None:
            self._higher = Higher(self._name, recipe, self._orders)
        return self._higher.run(recipe, [*edges, *map(gradient_edge, grads)])


class Higher:
    """The program of a derivative of some order: the forward with so many backwards, recorded.

    Args:
        name: of the function.
        recipe: of the call whose derivative is asked for first.
        orders: the shapes of the cotangents.
    """

    def __init__(self, name: str, recipe: Recipe, orders: Sequence[Sequence[Any]]) -> None:
        candidates = Candidates(Walk(recipe.function, list(recipe.leaves)))
        trace = Trace(name, recipe.call, candidates, recipe.arrays, orders)
        numbers = {id(tensor): place for place, tensor in enumerate(recipe.tensors)}
        storages = [numbers.get(id(candidates.operands[number].value)) for number in candidates.holders]
        self._sources: list[tuple[str, Any]] = [
            *[("held", place) for place in storages],
            *[("start", (number, part)) for number in range(len(candidates.generators)) for part in (0, 1)],
            *[("arrays", number) for number in range(len(recipe.arrays))],
            *[
                ("cotangents", (order, number))
                for order, specs in enumerate(orders)
                for number in range(len(specs))
            ],
        ]
        used = find_used_inputs(trace.closed.jaxpr)
        self._inputs = [source for source, use in zip(self._sources, used, strict=True) if use]
        self._run = jax.jit(rename_function(prune(trace.closed, used), f"{name}_derivative"))
        self._gradients = trace.gradients
        self._backward = Backward(trace)

    def run(self, recipe: Recipe, edges: Sequence[Edge | None]) -> list[Tensor]:
        """Returns the gradients of one call, with a history where they have one."""
        outputs = self._run(*[fetch(recipe, source) for source in self._inputs])
        node = None
        if self._backward.specs:
            saved = [
                fetch(recipe, self._sources[number]) if is_input else outputs[number]
                for is_input, number in self._backward.residuals
            ]
            node = self._backward.make_node(edges, saved, (), recipe)
        gradients: list[Tensor] = []
        for output, slot in self._gradients:
            gradient = box(outputs[output])
            if slot is not None:
                gradient._requires_grad, gradient._grad_fn, gradient._output_nr = True, node, slot
            gradients.append(gradient)
        return gradients


def fetch(recipe: Recipe, source: tuple[str, Any]) -> Any:
    """Returns an input of a program."""
    kind, place = source
    if kind == "held":
        return recipe.held[place]
    if kind == "arrays":
        return recipe.arrays[place]
    if kind == "cotangents":
        return recipe.cotangents[place[0]][place[1]]
    key, count = recipe.starts[place[0]]
    return np.uint32(count) if place[1] else key
