"""The graph recorded inside of a map, built again outside of it from mapped nodes.

Inside, nodes hold tracers, which are invalid after the map. While they are valid, their values outside are
read. Then each node gets an outer node with the same name, a mapped plan, and these values as residuals.
Edges that leave the map, to its arguments and to captured tensors, lead to them again. So differentiation to
any order, hooks and graph introspection work as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.autograd.recording.formula_node import NOBODY, FormulaNode
from oplib.autograd.saved.saved_tensor import link
from oplib.autograd.tangents import TangentSlot
from oplib.library.carrier.look import Below
from oplib.modes import modes
from oplib.tensor import Storage, Tensor

from .batch_dims import with_batch
from .mapped_plan import find_mapped_plan
from .mapped_view import fill_mapped_view, is_view_node, make_mapped_view
from .node_residuals import Residuals, read_residuals
from .spliced_node import SplicedNode
from .traced_node import TracedBackward, make_traced_node, trace_node

_new: Any = object.__new__


class ValuePool:
    """A list of values to read outside, each once.

    Attributes:
        values: the values.
        below: their values outside of the map, when these are known.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.below: Sequence[Below] = ()
        self._places: dict[int, int] = {}

    def add(self, value: Any) -> int:
        """Returns the index of a value."""
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.values)
            self.values.append(value)
        return place


class Target:
    """The destination outside of the map of an edge.

    Attributes:
        edge: the edge; None if gradients end here.
        is_batched: whether the gradient on it has the batch in front.
    """

    __slots__ = ("edge", "is_batched")

    def __init__(self, edge: Edge | None, *, is_batched: bool) -> None:
        self.edge = edge
        self.is_batched = is_batched


class RegionGraph:
    """The graph recorded inside of one map.

    Args:
        first: the sequence number of the first node that can belong to it.
        size: the size of the batch.
        entrances: the edge outside for each inner node that receives the gradient of an argument.
    """

    def __init__(self, first: int, size: int, entrances: dict[TapeNode, Edge]) -> None:
        self.pool = ValuePool()
        self._first = first
        self._size = size
        self._entrances = entrances
        self._residuals: dict[TapeNode, Residuals] = {}
        self._traced: dict[TapeNode, TracedBackward] = {}
        self._spliced: list[SplicedNode] = []
        self._views: list[TapeNode] = []
        self._leaves: dict[TapeNode, int] = {}
        self._tensors: dict[int, tuple[Tensor, int]] = {}
        self._made: dict[TapeNode, Any] = {}
        self._storages: dict[int, tuple[Storage, Storage]] = {}

    # Inside of the map -------------------------------------------------------------------------------------

    def collect(self, roots: Iterable[TapeNode]) -> None:
        """Finds all nodes of the map that are reached from ``roots``, and their values."""
        ahead = list(roots)
        seen = set(ahead)
        while ahead:
            node = ahead.pop()
            if not self._belongs(node):
                continue
            for edge in (*node.edges, *self._take(node)):
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    ahead.append(edge[0])

    def _belongs(self, node: TapeNode) -> bool:
        """Returns whether a node was recorded inside. Of leaves, arguments with hooks count."""
        if node in self._entrances:
            return node.has_hooks
        if isinstance(node, AccumulateGrad):
            self._leaves[node] = self.pool.add(node.variable._storage.array)
            return False
        return node.sequence_nr >= self._first

    def _take(self, node: TapeNode) -> Sequence[Edge | None]:
        """Stores the values of a node. Returns the edges of the tangents among them."""
        if isinstance(node, SplicedNode):
            self._spliced.append(node)
            if not node.has_hooks:
                return ()
        if is_view_node(node):
            self._views.append(node)
            return ()
        if isinstance(node, FormulaNode) and not node.has_hooks:
            residuals = self._residuals[node] = read_residuals(node)
            tangents = [slot.tangent for slot in node.tangents or () if slot is not None]
            held = [one for one in tangents if one is not None]
            for value in (*residuals.values, *residuals.read_values):
                self.pool.add(value)
            for tangent in held:
                self.hold(tangent)
            return [gradient_edge(one) for one in held]
        traced = self._traced[node] = trace_node(node)
        for value in traced.values:
            self.pool.add(value)
        return ()

    def hold(self, tensor: Tensor) -> None:
        """Stores the value of a tensor. A view can read it through its chain only inside."""
        self._tensors[id(tensor)] = tensor, self.pool.add(tensor._storage.array)

    # Outside of the map -------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Makes all outer nodes, when the values outside are known."""
        for node in self._residuals:
            self._made[node] = _new(type(node))
        for node, traced in self._traced.items():
            self._made[node] = make_traced_node(node, traced)
        for node in self._views:
            self._made[node] = make_mapped_view(node, self._size)
        for node, residuals in self._residuals.items():
            self._fill(node, residuals)
        for node, traced in self._traced.items():
            self._fill_traced(node, traced)
        for node in self._views:
            (target,) = map(self.target, node.edges)
            fill_mapped_view(self._made[node], node, self._size, target.edge, is_batched=target.is_batched)
        for node in self._spliced:
            for hole, edge in zip(node.holes, node.edges, strict=True):
                if hole is not None:
                    hole.edges = (self.target(edge).edge,)

    def below(self, tensor: Tensor) -> Below:
        """Returns the value outside of a tensor that was stored inside."""
        return self.pool.below[self._tensors[id(tensor)][1]]

    def target(self, edge: Edge | None) -> Target:
        """Returns the destination outside of an edge inside."""
        if edge is None:
            return Target(None, is_batched=True)
        node, slot = edge
        if node in self._made:
            return Target((self._made[node], slot), is_batched=True)
        if isinstance(node, SplicedNode) and node in self._spliced:
            return Target(node.outer_edges[slot], is_batched=True)
        if node in self._entrances:
            return Target(self._entrances[node], is_batched=True)
        leaf = self._leaves.get(node)
        if leaf is not None and self.pool.below[leaf].is_batched:
            return Target(None, is_batched=True)  # a leaf made inside, which ends with the map
        return Target(edge, is_batched=False)

    def adopt_storage(self, inner: Storage, outer: Storage) -> None:
        """Maps an inner storage to an outer one. The inner one is kept, because its id is the key."""
        self._storages[id(inner)] = inner, outer

    def storage_of(self, inner: Storage, value: Any) -> Storage:
        """Returns the outer storage of an inner one whose batched value outside was ``value``."""
        found = self._storages.get(id(inner))
        if found is None:
            outer = Storage(value)
            outer.version = inner.version
            self._storages[id(inner)] = inner, outer
            return outer
        return found[1]

    def _fill(self, node: TapeNode, residuals: Residuals) -> None:
        made, plan = self._made[node], residuals.plan
        targets = [self.target(edge) for edge in node.edges]
        own = tuple(target.is_batched for target in targets)
        first_extra = plan.input_count + len(plan.outputs)

        def is_linked(source: int) -> bool:
            """Returns whether the gradient of a residual has the batch in front.

            Then its value must have it too.
            """
            if source >= plan.input_count:
                return source >= first_extra or plan.differentiable[source - plan.input_count]
            return targets[source].edge is not None and own[source]

        values = [self._residual(value, is_linked(source)) for value, source in residuals.sourced()]
        reads = [self._residual(value, is_linked(source)) for value, source in residuals.sourced_reads()]
        made.plan = find_mapped_plan(
            plan,
            self._size,
            residuals=tuple(one.is_batched for one in values),
            reads=tuple(one.is_batched for one in reads),
            targets=own,
        )
        made.edges = tuple(target.edge for target in targets)
        made.sequence_nr = node.sequence_nr
        made._metadata = node._metadata
        made.tangents = self._outer_tangents(node)
        self._save(made, residuals, values, reads)

    def _outer_tangents(self, node: Any) -> list[TangentSlot | None] | None:
        """Returns the tangents of saved tensors, for forward mode over a backward pass."""
        level: Any = modes.state.dual_level
        if node.tangents is None or level is None:
            return None
        return [
            None if slot is None or slot.tangent is None else level.make_slot(self._tangent(slot.tangent))
            for slot in node.tangents
        ]

    def _tangent(self, tangent: Tensor) -> Tensor:
        found = self.below(tangent)
        target = self.target(gradient_edge(tangent))
        if not found.is_batched and not (target.edge is not None and target.is_batched):
            return tangent
        outer = ARRAYS.box(with_batch(found, self._size).array)
        if target.edge is not None:
            link(outer, target.edge)
        return outer

    def _save(self, made: Any, residuals: Residuals, values: Sequence[Below], reads: Sequence[Below]) -> None:
        """Sets the saved values of an outer node."""
        if residuals.is_freed:
            made.saved = None
            return
        storages, versions = self._outer_storages(residuals.storages, residuals.versions, values)
        made.saved = (*(one.array for one in values), *storages)
        made.versions = versions
        if residuals.plan.extras is not None:
            held = self._outer_storages(residuals.read_storages, residuals.read_versions, reads)
            made.kept = (tuple(one.array for one in reads), *held)

    def _outer_storages(
        self, storages: Sequence[Storage], versions: Sequence[int], values: Sequence[Below]
    ) -> tuple[tuple[Storage, ...], tuple[int, ...]]:
        """Returns the outer storages, and their versions if nothing has been written since."""
        found: list[Storage] = []
        due: list[int] = []
        for storage, version, value in zip(storages, versions, values, strict=True):
            is_inner = value.is_batched and storage is not NOBODY
            outer = self.storage_of(storage, value.array) if is_inner else storage
            if is_inner and version == storage.version:
                outer.array = value.array  # an earlier value may have been overwritten
            found.append(outer)
            due.append(outer.version + version - storage.version)
        return tuple(found), tuple(due)

    def _residual(self, value: Any, must_be_batched: bool) -> Below:
        found = self.pool.below[self.pool.add(value)]
        return with_batch(found, self._size) if must_be_batched else found

    def _fill_traced(self, node: TapeNode, traced: TracedBackward) -> None:
        if node in self._entrances:
            targets = [Target(self._entrances[node], is_batched=True)]
        elif isinstance(node, SplicedNode):
            targets = [Target(edge, is_batched=True) for edge in node.outer_edges]
        else:
            targets = [self.target(edge) for edge in node.edges]
        links = list(map(self.target, traced.saved_edges))
        linked = [False] * len(traced.constants) + [one.edge is not None and one.is_batched for one in links]
        values = list(map(self._residual, traced.values, linked))
        made = self._made[node]
        made.fill(
            [one.array for one in values],
            self._size,
            residuals=tuple(one.is_batched for one in values),
            targets=tuple(target.is_batched for target in targets),
        )
        made.edges = tuple(target.edge for target in targets)
        made.saved_edges = tuple(one.edge for one in links)
