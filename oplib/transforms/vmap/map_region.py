"""Regions: a function of Tensors runs for a whole batch at once, under ``jax.vmap``.

Inside, each Tensor holds JAX's tracer of one example, and the tape records as usual. When the function
returns, the recorded graph is built again outside (``region_graph.py``), so no tracer leaves the map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.autograd.array_functions.masks import map_given, pick_given
from oplib.autograd.grad_mode import set_grad_enabled
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.recording.in_place import write_in_place
from oplib.autograd.recording.origins import number_node
from oplib.autograd.saved_tensors.saved_tensor import link
from oplib.autograd.tangents import find_tangent, set_tangent
from oplib.errors import AutogradError, TracingError, describe
from oplib.library.jax_primitives.unmapped_values import UnmappedValue
from oplib.modes import modes
from oplib.tensor import Tensor, upcalls
from oplib.tensor.inference import InferenceTensor
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.storage.cut import cuts_results, stop
from oplib.tensor.storage.escape import note_trace
from oplib.tensor.storage.failed_reads import refuse_caught_reads
from oplib.tensor.storage.map_level import MapAxis, MapLevel, run_in_levels
from oplib.transforms.tracing.boundary import Boundary

from .dims import move_batch, repeat, with_batch
from .region_graph import RegionGraph

_NO_BACKWARD = (
    "vmap: a backward inside the map reaches the history of an argument, which was recorded outside. Call it "
    "outside, or name the tensors in oplib.autograd.grad(outputs, inputs)."
)
RegionFunction = Callable[[list[Any]], Sequence[Tensor | None]]


class Mapped(NamedTuple):
    """One result of a map, with the batch in front if it is batched; None if the function returned None."""

    tensor: Tensor | None
    is_batched: bool


class Entrance:
    """A mapped argument.

    Args:
        tensor: the argument.
        dim: its batch dimension.

    Attributes:
        moved: the argument with the batch in front, on the tape outside.
        inner: the Tensor inside, after the map has begun.
        node: the node that receives its gradient inside; None if it needs no gradient.
        tangent: the entrance of its tangent, in forward mode.
    """

    inner: Tensor
    node: TapeNode | None = None
    tangent: Entrance | None = None

    def __init__(self, tensor: Tensor, dim: int) -> None:
        self.tensor = tensor
        self.dim = dim
        self.moved = tensor
        if dim:
            with set_grad_enabled(True):  # the function may switch grad mode on
                self.moved = move_batch(tensor, dim, 0)

    def open(self, array: Any) -> None:
        """Makes the Tensor inside. It is a leaf if the argument is one, so that the same checks apply."""
        inner = self.inner = Tensor.from_array(array)
        if not self.tensor._requires_grad:
            return
        inner._requires_grad = True
        if self.tensor._grad_fn is not None:
            inner._grad_fn = node = Boundary.make(array, _NO_BACKWARD)
            number_node(node, modes.state)
        edge = gradient_edge(inner)
        assert edge is not None
        self.node = edge[0]


class Region:
    """One map over a batch of some size, with the ``randomness`` of ``vmap``."""

    _outputs: Sequence[Tensor | None]
    _tangents: Sequence[Tensor | None]
    _graph: RegionGraph

    def __init__(self, size: int, randomness: str) -> None:
        self._size = size
        self._randomness = randomness
        self._entrances: dict[tuple[int, int], Entrance] = {}

    def run(self, call: RegionFunction, values: Sequence[Any], dims: Sequence[int | None]) -> list[Mapped]:
        """Calls a function of one example for all examples. It may return None if the caller allows that.

        Args:
            call: the function.
            values: the arguments. Those with a dim are Tensors.
            dims: the batch dimension of each argument, not negative; None if it is the same for all examples.

        Raises:
            TracingError: JAX checks for leaks of traced values.
        """
        config: Any = jax.config  # its attributes are made late
        if config.jax_check_tracer_leaks:
            raise TracingError(
                "vmap: it keeps values of its trace until it has built the recorded graph outside, and "
                "jax.checking_leaks() would report them. Got jax_check_tracer_leaks=True. Call vmap outside "
                "of the block, or use jax.vmap on arrays."
            )
        inputs = [self._enter(value, dim) for value, dim in zip(values, dims, strict=True)]
        outside = get_opaque_trace_state()

        def body(index: Any, arrays: Sequence[Any]) -> Any:
            inside = get_opaque_trace_state()
            first = modes.sequence_nr
            level = MapLevel(self._size, self._randomness, index, outside, inside, first)
            levels = (*modes.state.map_levels, level)

            def run_example() -> None:
                for entrance, array in zip(self._entrances.values(), arrays, strict=True):
                    entrance.open(array)
                for entrance in self._entrances.values():
                    if entrance.tangent is not None:
                        set_tangent(entrance.inner, entrance.tangent.inner)
                self._outputs = call(
                    [value.inner if isinstance(value, Entrance) else value for value in inputs]
                )

            modes.state.vmap_levels += 1
            try:
                run_in_levels(levels, run_example)
            finally:
                modes.state.vmap_levels -= 1
            # Reading a checkpoint computes its region again.
            run_in_levels(levels, self._collect, index, first)
            return index

        arrays = [entrance.moved._storage.array for entrance in self._entrances.values()]
        mapped = jax.vmap(body, axis_size=self._size, axis_name=MapAxis(self._randomness))
        refuse_caught_reads("vmap", mapped, _number_examples(self._size, arrays), arrays)
        note_trace(modes.state)
        return self._leave()

    def _enter(self, value: Any, dim: int | None) -> Any:
        """Returns the entrance of a mapped argument. Each tensor has one, however often it is given."""
        if dim is None:
            return value
        key = id(value), dim
        if key not in self._entrances:
            made = self._entrances[key] = Entrance(value, dim)
            tangent = find_tangent(value)
            if tangent is not None:
                made.tangent = self._enter(tangent, dim)
        return self._entrances[key]

    # At the end, inside ------------------------------------------------------------------------------------

    def _collect(self, index: Any, first: int) -> None:
        """Finds the recorded nodes, and the values outside of the map of everything that leaves."""
        entrances = self._entrances.values()
        exits = {entry.node: (gradient_edge(entry.moved),) for entry in entrances if entry.node is not None}
        graph = self._graph = RegionGraph(first, self._size, exits)
        results = [*self._outputs, *(entrance.inner for entrance in self._written())]
        self._tangents = map_given(find_tangent, results)
        leaving = pick_given((*results, *self._tangents))
        graph.collect(edge[0] for tensor in leaving if (edge := gradient_edge(tensor)) is not None)
        for tensor in leaving:
            graph.hold(tensor)
        graph.pool.read(index)

    def _written(self) -> list[Entrance]:
        """Returns the arguments that were written in place."""
        return [entrance for entrance in self._entrances.values() if entrance.inner._storage.version]

    # Afterwards, outside -----------------------------------------------------------------------------------

    def _leave(self) -> list[Mapped]:
        """Builds graph and results outside, and updates the arguments that were written inside."""
        graph, written = self._graph, self._written()
        for entrance in self._entrances.values():
            if entrance not in written:
                graph.adopt_storage(entrance.inner._storage, entrance.moved._storage)
        graph.rebuild()
        results = [
            Mapped(None, False) if output is None else self._result(output) for output in self._outputs
        ]
        tangents = iter(self._tangents)
        for result in results:
            self._attach_tangent(result, next(tangents))
        for entrance in written:
            self._write_back(entrance, next(tangents))
        return results

    def _attach_tangent(self, result: Mapped, tangent: Tensor | None) -> None:
        """Sets the tangent of a result outside. One that is not mapped is the tensor inside and has it."""
        if tangent is None or result.tensor is None or not result.is_batched:
            return
        outer: Any = self._result(tangent)
        set_tangent(result.tensor, outer.tensor if outer.is_batched else repeat(outer.tensor, self._size))

    def _result(self, inner: Tensor) -> Mapped:
        edge = gradient_edge(inner)
        below, target = self._graph.below(inner), self._graph.target(edge)
        leads_out = edge is None or not target.is_batched
        if not below.is_batched and leads_out:
            return Mapped(inner.detach() if cuts_results(modes.state) else inner, False)
        for entrance in self._entrances.values():
            if entrance.inner is inner and inner._storage.version == 0:
                return Mapped(upcalls.alias(entrance.moved), True)
        return Mapped(self._box(inner, with_batch(below, self._size)), True)

    def _box(self, inner: Tensor, below: UnmappedValue) -> Tensor:
        """Makes the Tensor outside for a Tensor inside."""
        array = stop(below.array) if cuts_results(modes.state) else below.array
        outer = ARRAYS.box(array)
        outer._storage = self._graph.storage_of(inner._storage, array)
        if inner.is_inference():
            change_class(outer, InferenceTensor)
        outer._storage.array = array
        edge = gradient_edge(inner)
        target = self._graph.target(edge)
        if edge is not None and not target.is_batched:
            raise AutogradError(
                "vmap: a result is mapped, and its history is that of a tensor that is not. Got "
                f"{describe(below.array)}, made by {edge[0].name()} outside of vmap. Write into a clone() of "
                "the tensor, or compute the result out of place."
            )
        if target.edge is not None:
            link(outer, target.edge)
        return outer

    def _write_back(self, entrance: Entrance, tangent: Tensor | None) -> None:
        """Gives an argument the value and history of its Tensor inside."""
        inner = entrance.inner
        below = with_batch(self._graph.below(inner), self._size)
        node: Any = inner._grad_fn
        if node is None or node is entrance.node:
            new = ARRAYS.box(below.array)
        else:
            new = self._box(inner, below)
            new._storage = type(new._storage)(below.array)
        self._attach_tangent(Mapped(new, True), tangent)
        if entrance.dim:
            new = move_batch(new, 0, entrance.dim)
        write_in_place(entrance.tensor, new, "vmap")


def _number_examples(size: int, arrays: Sequence[Any]) -> Any:
    """Returns the numbers of all examples. On an explicit mesh they are spread as the batches are."""
    numbers = np.arange(size, dtype=np.int32)  # an eager call of JAX costs as much as mapping an op
    sharding = jax.typeof(arrays[0]).sharding if arrays else None
    if sharding is None or sharding.mesh.empty or sharding.spec[0] is None:
        return numbers
    spec = jax.sharding.PartitionSpec(sharding.spec[0])
    is_traced = isinstance(arrays[0], Tracer)
    mesh = sharding.mesh if is_traced else arrays[0].sharding.mesh
    place = jax.sharding.reshard if is_traced else jax.device_put
    return place(numbers, jax.sharding.NamedSharding(mesh, spec))
