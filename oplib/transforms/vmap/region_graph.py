"""The graph recorded inside of a map, built again outside of it from mapped nodes.

Inside, nodes hold tracers, which are invalid after the map. While they are valid, their values outside are
read. Then each node gets an outer node with the same name, a mapped plan, and these values as residuals.
Edges that leave the map, to its arguments and to captured tensors, lead to them again. So differentiation to
any order, hooks and graph introspection work as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Arrays, BackwardPlan, Mask
from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.gradient_representation import ARRAYS, is_tracer_class
from oplib.autograd.nodes.node import FIRST, NOBODY, Edge, SavedArray, SavedState, TapeNode
from oplib.autograd.saved_tensors.saved_tensor import link
from oplib.autograd.tangents import TangentSlot
from oplib.library.jax_primitives.unmapped_values import UnmappedValue, read_unmapped
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.inference import InferenceStorage

from .dims import with_batch
from .rebuilt_node import RebuiltNode, trace_node
from .spliced_node import SplicedNode


class MappedPlan(BackwardPlan):
    """The plan of a call inside of a map, as a plan for all examples.

    All outputs have the batch in front, even if their values are the same in all examples. A gradient per
    example is correct in both cases. It is summed only where it leaves the map for a tensor that is not
    mapped.

    Args:
        inner: the plan of one example.
        size: the number of examples.
        residuals: for each residual, whether it is batched.
        reads: the same for the values that intermediates are computed from.
        targets: for each input, whether each example has its own gradient; otherwise gradients are summed.
    """

    __slots__ = ("_inner", "_mapped", "_residuals", "_size", "_targets", "_token")

    def __init__(
        self, inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
    ) -> None:
        shapes = [
            None if spec is None else jax.ShapeDtypeStruct((size, *spec.shape), spec.dtype)
            for spec in inner.outputs
        ]
        super().__init__(inner.wanted, shapes, inner.sources)
        self.differentiable, self.names = inner.differentiable, inner.names
        self._inner, self._size = inner, size
        self._residuals, self._targets = residuals, targets
        self._mapped: dict[ArrayFunction, ArrayFunction] = {}
        if inner.extras is not None:
            mapped = map_function(inner.extras.function, size, reads)
            self.extras = ArrayFunction(mapped, inner.extras.name, compiled=inner.extras.compiled)
            self.extra_reads = inner.extra_reads

    @property
    def token(self) -> Any:  # another formula, another token
        """Stands for the plan and that of one example in keys; None if that has none."""
        return self._inner.token and (self._token, self._inner.token)

    @token.setter
    def token(self, token: int) -> None:
        self._token = token

    def backward(self, present: Mask) -> ArrayFunction:  # noqa: D102  described in BackwardPlan
        inner = self._inner.backward(present)
        mapped = self._mapped.get(inner)
        if mapped is None:
            mapped = self._mapped[inner] = ArrayFunction(
                map_backward(inner.function, self._size, self._residuals, self._targets),
                inner.name,
                compiled=inner.compiled,
                is_formula=inner.is_formula,
                selects=inner.selects,
            )
        return mapped


def find_mapped_plan(
    inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
) -> MappedPlan:
    """Returns the mapped plan of a plan. Equal arguments give the same object with its compiled functions.

    A plan without a token is that of one call only.
    """
    make = MappedPlan if inner.token is None else _find_plan
    return make(inner, size, residuals=residuals, reads=reads, targets=targets)


_find_plan = lru_cache(maxsize=1024)(MappedPlan)


def map_function(function: Callable[..., Arrays], size: int, batched: Mask) -> Callable[..., Arrays]:
    """Maps a function of arrays over the first axis of some. All results have the batch in front."""
    axes = tuple(0 if is_batched else None for is_batched in batched)

    def mapped(*arrays: Any) -> Arrays:
        rest = (0,) * (len(arrays) - len(axes))  # gradients, which are always batched
        return jax.vmap(function, in_axes=(*axes, *rest), axis_size=size)(*arrays)

    return mapped


def map_backward(
    function: Callable[..., Arrays], size: int, residuals: Mask, targets: Mask
) -> Callable[..., Arrays]:
    """Maps a backward. Gradients of inputs that are not mapped are summed over the examples."""
    mapped = map_function(function, size, residuals)

    def summed(*arrays: Any) -> Arrays:
        return tuple(
            grad if grad is None or own else jnp.sum(grad, axis=0)
            for grad, own in zip(mapped(*arrays), targets, strict=True)
        )

    return summed


_new: Any = object.__new__


class ValuePool:
    """The traced values to read outside, each once. A value that JAX does not trace is the same outside."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._below: Sequence[UnmappedValue] = ()
        self._indices: dict[int, int] = {}

    def add(self, value: Any) -> None:
        """Adds a value."""
        if is_tracer_class[type(value)] and id(value) not in self._indices:
            self._indices[id(value)] = len(self.values)
            self.values.append(value)

    def read(self, index: Any) -> None:
        """Reads all values, inside of the map. ``index`` is a value that the map has batched."""
        self._below = read_unmapped(index, self.values)

    def find(self, value: Any) -> UnmappedValue:
        """Returns a value as it is outside."""
        index = self._indices.get(id(value))
        return UnmappedValue(value, False) if index is None else self._below[index]


class Target(NamedTuple):
    """The destination outside of the map of an edge.

    Attributes:
        edge: the edge; None if gradients end here.
        is_batched: whether the gradient on it has the batch in front.
    """

    edge: Edge | None
    is_batched: bool = True


class RegionGraph:
    """The graph recorded inside of one map.

    Args:
        first: the sequence number of the first node that can belong to it.
        size: the size of the batch.
        exits: the edges outside for each inner node that receives the gradient of an argument.
    """

    def __init__(self, first: int, size: int, exits: Mapping[TapeNode, Sequence[Edge | None]]) -> None:
        self.pool = ValuePool()
        self._first = first
        self._size = size
        self._exits = dict(exits)
        self._states: dict[TapeNode, SavedState] = {}
        self._spliced: list[SplicedNode] = []
        self._leaves: dict[TapeNode, Any] = {}
        self._tensors: dict[int, tuple[Tensor, Any]] = {}
        self._made: dict[TapeNode, Any] = {}
        self._storages: dict[int, tuple[Storage, Storage]] = {}

    # Inside of the map -------------------------------------------------------------------------------------

    def collect(self, roots: Iterable[TapeNode]) -> None:
        """Finds all nodes of the map that are reached from ``roots``, and their values."""
        ahead = list(roots)
        seen = set(ahead)
        while ahead:
            node = ahead.pop()
            for edge in self._take(node):
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    ahead.append(edge[0])

    def _take(self, node: TapeNode) -> Iterable[Edge | None]:
        """Stores the values of a node that was recorded inside. Returns the edges that lead on."""
        if node in self._exits:  # of the arguments, those with hooks are built again
            return self._keep(node, trace_node(node, ends_here=True)) if node.has_hooks else ()
        if isinstance(node, AccumulateGrad):
            self._leaves[node] = node.variable._storage.array
            self.pool.add(self._leaves[node])
            return ()
        if node.sequence_nr < self._first:
            return ()
        if isinstance(node, SplicedNode):
            self._spliced.append(node)
            self._exits[node] = node.outer_edges
            if node.has_hooks:
                self._keep(node, trace_node(node, ends_here=True))
            return node.edges
        state = None if node.has_hooks else node.read_saved()
        if state is None or state.plan is None:
            state = trace_node(node, ends_here=False)
        return (*node.edges, *self._keep(node, state))

    def _keep(self, node: TapeNode, state: SavedState) -> list[Edge | None]:
        """Stores the values of a node. Returns the edges of its values and of the tangents among them."""
        self._states[node] = state
        links = [value.edge for value in (*state.values, *state.reads)]
        for value in (*state.values, *state.reads):
            self.pool.add(value.array)
        for slot in state.tangents or ():
            if slot is not None and slot.tangent is not None:
                self.hold(slot.tangent)
                links.append(gradient_edge(slot.tangent))
        return links

    def hold(self, tensor: Tensor) -> None:
        """Stores the value of a tensor. A view can read it through its chain only inside."""
        array = tensor._storage.array
        self._tensors[id(tensor)] = tensor, array
        self.pool.add(array)

    # Outside of the map -------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Makes all outer nodes, when the values outside are known."""
        for node, state in self._states.items():
            made = self._made[node] = _new(state.node_class or RebuiltNode)
            if state.node_class is None:
                made.label = node.name()
            made.sequence_nr = modes.sequence_nr if node.sequence_nr == FIRST else node.sequence_nr
            made.paths, made._metadata = node.paths, node._metadata
            made._location, made._scope = node._location, node._scope
        for node, state in self._states.items():
            self._fill(node, state)
        for node in self._spliced:
            for placeholder, edge in zip(node.placeholders, node.edges, strict=True):
                if placeholder is not None:
                    placeholder.edges = (self.target(edge).edge,)
        for node in sorted(self._made.values(), key=TapeNode._sequence_nr):
            tell_creation(node)

    def below(self, tensor: Tensor) -> UnmappedValue:
        """Returns the value outside of a tensor that was stored inside."""
        return self.pool.find(self._tensors[id(tensor)][1])

    def target(self, edge: Edge | None) -> Target:
        """Returns the destination outside of an edge inside."""
        if edge is None:
            return Target(None)
        node, slot = edge
        if node in self._made:
            return Target((self._made[node], slot))
        if node in self._exits:
            return Target(self._exits[node][slot])
        leaf = self._leaves.get(node)
        if leaf is not None and self.pool.find(leaf).is_batched:
            return Target(None)  # a leaf made inside, which ends with the map
        return Target(edge, False)

    def adopt_storage(self, inner: Storage, outer: Storage) -> None:
        """Maps an inner storage to an outer one. The inner one is kept, because its id is the key."""
        self._storages[id(inner)] = inner, outer

    def storage_of(self, inner: Storage, value: Any) -> Storage:
        """Returns the outer storage of an inner one whose batched value outside was ``value``."""
        known = self._storages.get(id(inner))
        if known is None:
            outer = (InferenceStorage if inner.is_inference else Storage)(value)
            outer.version = inner.version
            self._storages[id(inner)] = inner, outer
            return outer
        return known[1]

    def _fill(self, node: TapeNode, state: SavedState) -> None:
        """Gives an outer node its mapped plan, its edges and its values."""
        plan: Any = state.plan
        exits = self._exits.get(node)
        targets = list(map(self.target, node.edges) if exits is None else map(Target, exits))
        first_extra = plan.input_count + len(plan.outputs)
        extras = [plan.extras is not None and source >= first_extra for source in plan.sources]
        values = list(map(self._outer_value, state.values, extras))
        reads = list(map(self._outer_value, state.reads))
        mapped = find_mapped_plan(
            plan,
            self._size,
            residuals=tuple([is_batched for _, is_batched in values]),
            reads=tuple([is_batched for _, is_batched in reads]),
            targets=tuple([target.is_batched for target in targets]),
        )
        outer = state._replace(
            plan=mapped,
            values=[value for value, _ in values],
            reads=[value for value, _ in reads],
            tangents=self._outer_tangents(state),
        )
        self._made[node].restore(outer, tuple([target.edge for target in targets]))

    def _outer_tangents(self, state: SavedState) -> list[TangentSlot | None] | None:
        """Returns the tangents of saved tensors, for forward mode over a backward pass."""
        level: Any = modes.state.dual_level
        if state.tangents is None or level is None:
            return None
        return [
            None if slot is None or slot.tangent is None else level.make_slot(self._tangent(slot.tangent))
            for slot in state.tangents
        ]

    def _tangent(self, tangent: Tensor) -> Tensor:
        value = self.below(tangent)
        target = self.target(gradient_edge(tangent))
        if not value.is_batched and not (target.edge is not None and target.is_batched):
            return tangent
        outer = ARRAYS.box(with_batch(value, self._size).array)
        if target.edge is not None:
            link(outer, target.edge)
        return outer

    def _outer_value(self, value: SavedArray, is_extra: bool = False) -> tuple[SavedArray, bool]:
        """Returns a saved value as the outer node holds it, and whether it has the batch in front.

        A value whose gradient has the batch must have it too, and so must an intermediate that is computed
        again.
        """
        below = self.pool.find(value.array)
        target = self.target(value.edge)
        if is_extra or (target.edge is not None and target.is_batched):
            below = with_batch(below, self._size)
        _, storage, version, _ = value
        if below.is_batched and storage is not NOBODY:
            outer = self.storage_of(storage, below.array)
            if version == storage.version:
                outer.array = below.array  # an earlier value may have been overwritten
            version += outer.version - storage.version
            storage = outer
        return SavedArray(below.array, storage, version, target.edge), below.is_batched
