"""Calls inside of a map that run outside of it on whole batches, and their nodes.

The static ``vmap`` of a Function is such a call. It receives the arguments of all examples, as Tensors of the
outer level, and its operations are recorded there at once. The history of its arguments is not yet recorded
there, so each argument gets a placeholder, whose edge is set when the mapped function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state

from oplib.autograd.engine.backward_and_grad import grad as find_gradients
from oplib.autograd.forward_ad import dual_level
from oplib.autograd.function import Function
from oplib.autograd.grad_mode import enable_grad
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.autograd.recording.origins import number_node
from oplib.autograd.tangents import find_tangent, freeze_tensor, set_tangent
from oplib.autograd.user_functions.vmap import call_own_rule, uses_own_rule
from oplib.errors import AutogradError, DimensionError, describe
from oplib.library.jax_primitives.unmapped_values import UnmappedValue, call_unmapped, read_unmapped
from oplib.library.jax_primitives.vmap_rule import VmapInfo
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.pytree import tree_flatten, tree_unflatten
from oplib.tensor import Tensor
from oplib.tensor.storage.map_level import MapLevel, run_in_levels

from .dims import move_batch, repeat, with_batch

_new: Any = object.__new__
BatchFunction = Callable[[list[Tensor], list[bool]], list[Tensor]]


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
    function: BatchFunction
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


def apply_in_map(cls: type[Function], args: Values, kwargs: dict[str, Any], apply: AnyFunction) -> Any:
    """Applies a Function inside of ``vmap``.

    With ``generate_vmap_rule`` the Function runs on one example by ``apply``, and its backward is mapped.

    Raises:
        AutogradError: it has no rule, or the result of the rule does not fit.
    """
    level = modes.state.map_levels[-1]
    if not uses_own_rule(cls) or get_opaque_trace_state() != level.inside:
        return apply(args, kwargs)
    args = _bind(cls, args, kwargs)
    leaves, spec = tree_flatten(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    below = read_unmapped(level.index, [tensor._storage.array for tensor in tensors])
    if not any(value.is_batched for value in below):
        return apply(args, {})
    outcome: list[Any] = []

    def run(boxes: list[Tensor], batched: list[bool]) -> list[Tensor]:
        remaining = iter(boxes)
        flags = iter(batched)
        values = [next(remaining) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        dims = [0 if isinstance(leaf, Tensor) and next(flags) else None for leaf in leaves]
        info = VmapInfo(level.size, level.randomness)
        outputs, out_dims, out_spec = call_own_rule(
            cls, info, tree_unflatten(dims, spec), tree_unflatten(values, spec)
        )
        outcome[:] = [outputs, out_spec]
        pairs = zip(outputs, out_dims, strict=True)
        return [_front(cls, output, dim, level.size) for output, dim in pairs if isinstance(output, Tensor)]

    results = iter(call_spliced(level, run, tensors))
    outputs, out_spec = outcome
    packed = [next(results) if isinstance(output, Tensor) else output for output in outputs]
    return tree_unflatten(packed, out_spec)


def _bind(cls: type[Function], args: Values, kwargs: dict[str, Any]) -> Values:
    """Returns all arguments in the order of the parameters of forward, for the rule."""
    bound, keyword_only = cls._binding().bind(args, kwargs)
    if keyword_only:
        raise AutogradError(
            f"{cls.__name__}: its vmap staticmethod gets positional arguments, and forward has keyword-only "
            f"ones. Got {list(keyword_only)}. Make these parameters positional, or set "
            "generate_vmap_rule=True and delete vmap."
        )
    return bound


def _front(cls: type[Function], output: Tensor, dim: int | None, size: int) -> Tensor:
    """Moves the batch of a result to the front."""
    if dim is None:
        return repeat(output, size)
    array = output._storage.array
    if not -array.ndim <= dim < array.ndim or array.shape[dim] != size:
        raise DimensionError(
            f"{cls.__name__}: its vmap staticmethod returned an out_dim that is no batch of its output. Got "
            f"{dim} for {describe(array)}, and the batch has {size}. Return the place of the batch in each "
            "output."
        )
    return move_batch(output, dim % array.ndim, 0) if dim else output


def call_spliced(level: MapLevel, function: BatchFunction, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Calls a function of whole batches with the Tensors of one example.

    The function receives Tensors of the outer level, with the batch in front if the flag beside it is set. It
    returns Tensors with the batch in front. The results are those inside of the map, with history. Tangents
    of the Tensors are further arguments of the call, and those of the results further results.
    """
    tangents = {
        n: tangent for n, tensor in enumerate(tensors) if (tangent := find_tangent(tensor)) is not None
    }
    pushed: list[int] = []

    def push(boxes: list[Tensor], batched: list[bool]) -> list[Tensor]:
        count = len(tensors)
        # A backward through the tangents may come when their level is closed.
        with nullcontext() if modes.state.dual_level is not None else dual_level():
            for place, index in enumerate(tangents, count):
                if batched[index] != batched[place]:
                    part = place if batched[index] else index
                    boxes[part] = freeze_tensor(repeat(boxes[part], level.size))  # its tangent is its own
                    batched[index] = True
                set_tangent(boxes[index], boxes[place])
            results = function(boxes[:count], batched[:count])
            found: list[Any] = list(map(find_tangent, results))
        pushed[:] = [index for index, tangent in enumerate(found) if tangent is not None]
        return [*results, *(found[index] for index in pushed)]

    results = _splice(level, push if tangents else function, [*tensors, *tangents.values()])
    first = len(results) - len(pushed)
    for index, tangent in zip(pushed, results[first:], strict=True):
        set_tangent(results[index], tangent)
    return results[:first]


def _splice(level: MapLevel, function: BatchFunction, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Calls a function of whole batches, and records one node inside of the map."""
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
    results = list(map(ARRAYS.box, arrays))
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
    node.edges = tuple(map(gradient_edge, node.tensors))
    node.outer_edges = tuple(map(gradient_edge, outer))
    node.input_metadata = tuple(jax.typeof(tensor._storage.array) for tensor in results)
    number_node(node, modes.state)
    for slot, (result, edge) in enumerate(zip(results, node.outer_edges, strict=True)):
        if edge is not None:
            result._requires_grad, result._grad_fn, result._output_nr = True, node, slot
