"""Slots: the saved values of a compiled node as single objects that can be read and have hooks.

A node makes slots only when they are first needed. Before, it holds bare arrays and their storages, and a
backward pass reads only these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import BackwardPlan
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.node import Edge, SavedArray, SavedState, TapeNode
from oplib.autograd.tangents import TangentSlot
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor, box

from .hooks import active_pairs
from .saved_tensor import SavedTensor

Columns = tuple[Sequence[Any], Sequence[Storage], Sequence[int]]


class SavedSlots:
    """The value of ``FormulaNode.saved`` after the first look at a slot.

    Attributes:
        residuals: the values that the formula reads, in the order of the plan.
        reads: the values that intermediates are computed from under ``create_graph``. Slots that are also
            residuals are shared.
    """

    __slots__ = ("reads", "residuals")

    def __init__(self, residuals: Sequence[SavedTensor], reads: Sequence[SavedTensor]) -> None:
        self.residuals = tuple(residuals)
        self.reads = tuple(reads)

    def read(self, node_name: str) -> Values:
        """Returns the arrays that the formula reads."""
        return tuple([slot.read_residual(node_name) for slot in self.residuals])

    def describe(self, node_name: str) -> tuple[Columns, Columns]:
        """Returns the arrays, storages and current versions of the residuals, and of the reads."""

        def split(slots: Sequence[SavedTensor]) -> Columns:
            storages = [slot.storage for slot in slots]
            return (
                [slot.read_residual(node_name) for slot in slots],
                storages,
                [storage.version for storage in storages],
            )

        return split(self.residuals), split(self.reads)

    def free(self) -> None:
        """Drops all values."""
        for slot in (*self.residuals, *self.reads):
            slot.free()


class SlottedNode(TapeNode):
    """A node with a plan. It shows its saved values to users, and can be built again with others.

    Its attributes are those of :class:`.formula_node.FormulaNode`.
    """

    plan: BackwardPlan
    saved: Values | SavedSlots | None = ()
    versions: tuple[int, ...] | None = None
    kept: tuple[Values, tuple[Storage, ...], tuple[int, ...]] | None = None
    tangents: list[TangentSlot | None] | None = None

    def read_saved(self) -> SavedState:  # noqa: D102  described in TapeNode
        plan, saved = self.plan, self.saved
        if saved is None:
            return SavedState(plan, node_class=type(self), is_freed=True)
        if isinstance(saved, SavedSlots):
            values, reads = saved.describe(self.name())
        else:
            count = len(plan.sources)
            values = saved[:count], saved[count:], self.versions or (0,) * count
            reads = self.kept or ((), (), ())
        return SavedState(
            plan,
            list(map(SavedArray, *values, self.find_links(plan.sources))),
            list(map(SavedArray, *reads, self.find_links(plan.extra_reads))),
            self.tangents,
            type(self),
        )

    def restore(self, state: SavedState, edges: tuple[Edge | None, ...]) -> None:
        """Gives a new node a state and edges, as the call that saves the values would.

        Args:
            state: the values, and their plan.
            edges: the edge of each input.
        """
        assert state.plan is not None, "the node runs Python code"
        self.plan, self.edges = state.plan, edges
        if state.tangents is not None:
            self.tangents = list(state.tangents)
        arrays, storages, versions = _spread(state.values)
        self.saved = None if state.is_freed else (*arrays, *storages)
        if any(versions):
            self.versions = versions
        if state.plan.extras is not None and not state.is_freed:
            self.kept = _spread(state.reads)

    def find_links(self, sources: Sequence[int]) -> list[Edge | None]:
        """Returns the edge of each saved value, by its place among inputs, outputs and intermediates."""
        plan, edges = self.plan, self.edges
        first_output = plan.input_count
        first_extra = first_output + len(plan.outputs)
        return [
            edges[source]
            if source < first_output
            else (self, source - first_output)
            if source < first_extra and plan.differentiable[source - first_output]
            else None
            for source in sources
        ]

    def link_saved(self, source: int, value: Any, storage: Storage) -> Tensor:
        """Returns a tensor with history for a saved input or output."""
        raise NotImplementedError

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """All saved values. Each of them accepts hooks."""
        return self.open_slots().residuals

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """All saved values as tensors with history. An intermediate of the formula has none."""
        return tuple(map(self.unpack_slot, range(len(self.plan.sources))))

    def __dir__(self) -> list[str]:
        """Lists what can be read: a node that has saved nothing has no ``_saved_<name>``, as on torch."""
        shown = super().__dir__()
        if self.plan.sources:
            return list(shown)
        return [name for name in shown if not name.startswith(("_saved_", "_raw_saved_"))]

    def find_slots(self, name: str) -> list[int]:
        """Returns the indices of the residuals that belong to an argument or result of this name.

        Raises:
            AttributeError: the op saves nothing.
        """
        if not self.plan.sources:
            raise AttributeError(
                f"{self.name()}: it has saved nothing. The formula reads no '{name}'. Look at a node whose "
                "formula reads values, such as that of a product."
            )
        names = self.plan.names
        count = len(names)
        return [
            index
            for index, source in enumerate(self.plan.sources)
            if source < count and names[source] == name
        ]

    def unpack_slot(self, index: int) -> Tensor:
        """Returns one residual with its history. A saved leaf is returned itself."""
        slot = self.open_slots().residuals[index]
        value, source = slot.read(self.name()), self.plan.sources[index]
        if source < self.plan.input_count and not slot.is_packed:
            edge = self.edges[source]
            if edge is not None and isinstance(edge[0], AccumulateGrad):
                return edge[0].variable
        value = jnp.asarray(value)  # it may be a number
        if source >= self.plan.input_count + len(self.plan.outputs):
            return box(value)
        return self.link_saved(source, value, slot.storage)

    def open_slots(self) -> SavedSlots:
        """Returns the saved values as slots, and keeps them so."""
        saved = self.saved
        if isinstance(saved, SavedSlots):
            return saved
        if saved is None:
            return _freed_slots(len(self.plan.sources))
        count = len(self.plan.sources)
        versions = self.versions or (0,) * count
        residuals = list(map(SavedTensor.of_value, saved[:count], saved[count:], versions))
        known = dict(zip(self.plan.sources, residuals, strict=True))
        reads = [] if self.kept is None else list(map(SavedTensor.of_value, *self.kept))
        reads = [known.get(source, read) for source, read in zip(self.plan.extra_reads, reads, strict=False)]
        self.saved = SavedSlots(residuals, reads)
        self.kept = self.versions = None
        return self.saved


def _spread(values: Sequence[SavedArray]) -> tuple[Values, tuple[Storage, ...], tuple[int, ...]]:
    """Returns the arrays, the storages and the versions of saved values."""
    arrays, storages, versions, _ = zip(*values, strict=True) if values else ((), (), (), ())
    return arrays, storages, versions


def pack_residuals(plan: BackwardPlan, values: Sequence[Any], tensors: Sequence[Tensor | None]) -> SavedSlots:
    """Saves through the active hooks. As in torch, a residual is packed each time that it is read."""
    pairs = active_pairs()

    def pack(source: int) -> SavedTensor:
        tensor = tensors[source] if source < len(tensors) else None
        slot = object.__new__(SavedTensor)
        if tensor is None and is_python_number(values[source]):
            slot._array = values[source]
        else:
            slot.pack(pairs, box(values[source]) if tensor is None else tensor)
        return slot

    residuals = list(map(pack, plan.sources))
    if not plan.extra_reads:
        return SavedSlots(residuals, ())
    known = dict(zip(plan.sources, residuals, strict=True))
    return SavedSlots(residuals, [known.get(source) or pack(source) for source in plan.extra_reads])


def is_python_number(value: Any) -> bool:
    """Returns whether a value is a Python number in an array. Hooks do not receive numbers."""
    return not isinstance(value, jax.Array) or (value.ndim == 0 and jax.typeof(value).weak_type)


def _freed_slots(count: int) -> SavedSlots:
    slots = SavedSlots([object.__new__(SavedTensor) for _ in range(count)], ())
    slots.free()
    return slots


@cache
def make_saved_properties(names: tuple[str, ...]) -> Mapping[str, property]:
    """Makes the properties ``_saved_<name>`` and ``_raw_saved_<name>`` for arguments and results of an op."""
    made: dict[str, property] = {}
    for name in names:
        made[f"_saved_{name}"] = _make_value_property(name)
        made[f"_raw_saved_{name}"] = _make_raw_property(name)
    return made


def _make_value_property(name: str) -> property:
    def read(self: SlottedNode) -> Any:
        return _sole(list(map(self.unpack_slot, self.find_slots(name))))

    return property(read, doc=f"What was saved of '{name}', with its history; None where it was not needed.")


def _make_raw_property(name: str) -> property:
    def read(self: SlottedNode) -> Any:
        slots = self.open_slots().residuals
        return _sole([slots[index] for index in self.find_slots(name)])

    return property(read, doc=f"What was saved of '{name}', on which hooks can be registered.")


def _sole(values: list[Any]) -> Any:
    """Returns one value alone, and several (those of a list of tensors) as a tuple."""
    return None if not values else values[0] if len(values) == 1 else tuple(values)
