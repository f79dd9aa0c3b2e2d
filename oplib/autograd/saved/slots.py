"""What a compiled node has saved, one by one, where somebody wants to look at it or hang hooks on it.

As long as nobody does, a node holds bare arrays and their storages, which is all that a backward pass reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import BackwardPlan
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.node import TapeNode
from oplib.tensor import Storage, Tensor, box

from .hooks import HookPair
from .saved_tensor import NOBODY, SavedTensor


class SavedSlots:
    """Stands in ``FormulaNode.saved`` where that is no tuple of arrays and storages.

    Attributes:
        residuals: what the formula reads, in the order of the plan.
        reads: what intermediates are computed from under ``create_graph``; shared with ``residuals`` where
            these are the same.
    """

    __slots__ = ("reads", "residuals")

    def __init__(self, residuals: Sequence[SavedTensor], reads: Sequence[SavedTensor]) -> None:
        self.residuals = tuple(residuals)
        self.reads = tuple(reads)

    def read(self, node_name: str) -> tuple[Any, ...]:
        """Returns the arrays that the formula reads."""
        return tuple([slot.read(node_name) for slot in self.residuals])

    def free(self) -> None:
        """Drops all values."""
        for slot in (*self.residuals, *self.reads):
            slot.free()


class SlottedNode(TapeNode):
    """A node that shows what it has saved; the tape itself needs none of this.

    Its attributes are those of :class:`.formula_node.FormulaNode`.
    """

    plan: BackwardPlan
    saved: tuple[Any, ...] | SavedSlots | None = ()
    versions: tuple[int, ...] | None = None
    kept: tuple[tuple[Any, ...], tuple[Storage, ...], tuple[int, ...]] | None = None

    def link_saved(self, source: int, value: Any, storage: Storage) -> Tensor:
        """Returns a tensor for a saved input or output, at the place on the tape where it was saved."""
        raise NotImplementedError

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """All that was saved, on each of which hooks can be registered."""
        return self.open_slots().residuals

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """All that was saved, with its history."""
        return tuple([self.unpack_slot(place) for place in range(len(self.plan.sources))])

    def find_slots(self, name: str) -> list[int]:
        """Returns which residuals belong to an argument or result of this name.

        Raises:
            AttributeError: the op saves nothing at all.
        """
        if not self.plan.sources:
            raise AttributeError(
                f"{self.name()}: it has saved nothing. The formula reads no '{name}'. Look at a node whose "
                "formula reads values, such as that of a product."
            )
        names = self.plan.names
        count = len(names)
        return [
            place
            for place, source in enumerate(self.plan.sources)
            if source < count and names[source] == name
        ]

    def unpack_slot(self, place: int) -> Tensor:
        """Returns one residual with its history; a leaf is the very tensor that was saved."""
        slot = self.open_slots().residuals[place]
        value, source = slot.read(self.name()), self.plan.sources[place]
        if source < self.plan.input_count and not slot.is_packed:
            edge = self.edges[source]
            if edge is not None and isinstance(edge[0], AccumulateGrad):
                return edge[0].variable
        return self.link_saved(source, jnp.asarray(value), slot.storage)  # a number may stand for an array

    def open_slots(self) -> SavedSlots:
        """Returns what is saved one by one, and keeps it so from now on."""
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


def pack_residuals(
    plan: BackwardPlan, pairs: tuple[HookPair, ...], values: Sequence[Any], tensors: Sequence[Tensor | None]
) -> SavedSlots:
    """Saves through hooks: each residual once for each time that it is read, as torch packs."""

    def pack(source: int) -> SavedTensor:
        tensor = tensors[source] if source < len(tensors) else None
        value = values[source]
        slot = SavedTensor.of_value(value, NOBODY if tensor is None else tensor._storage)
        if tensor is not None or not _is_number(value):
            slot.pack(pairs, box(value) if tensor is None else tensor)
        return slot

    residuals = [pack(source) for source in plan.sources]
    known = dict(zip(plan.sources, residuals, strict=True))
    return SavedSlots(residuals, [known.get(source) or pack(source) for source in plan.extra_reads])


def _is_number(value: Any) -> bool:
    """Whether an array stands for a Python number, which no hook gets to see."""
    return not isinstance(value, jax.Array) or (value.ndim == 0 and jax.typeof(value).weak_type)


def _freed_slots(count: int) -> SavedSlots:
    slots = [SavedTensor.of_value(None, NOBODY) for _ in range(count)]
    for slot in slots:
        slot.free()
    return SavedSlots(slots, ())


@cache
def make_saved_properties(names: tuple[str, ...]) -> Mapping[str, property]:
    """Makes ``_saved_<name>`` and ``_raw_saved_<name>`` for the arguments and results of an op."""
    made: dict[str, property] = {}
    for name in names:
        made[f"_saved_{name}"] = _make_value_property(name)
        made[f"_raw_saved_{name}"] = _make_raw_property(name)
    return made


def _make_value_property(name: str) -> property:
    def read(self: SlottedNode) -> Any:
        return _sole([self.unpack_slot(place) for place in self.find_slots(name)])

    return property(read, doc=f"What was saved of '{name}', with its history; None where it was not needed.")


def _make_raw_property(name: str) -> property:
    def read(self: SlottedNode) -> Any:
        slots = self.open_slots().residuals
        return _sole([slots[place] for place in self.find_slots(name)])

    return property(read, doc=f"What was saved of '{name}', on which hooks can be registered.")


def _sole(found: list[Any]) -> Any:
    """One value alone, several as a tuple: those of a list of tensors."""
    return None if not found else found[0] if len(found) == 1 else tuple(found)
