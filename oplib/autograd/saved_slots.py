"""What a compiled node has saved, one by one, where somebody wants to look at it or hang hooks on it.

As long as nobody does, a node holds bare arrays and their storages, which is all that a backward pass reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .saved import SavedTensor

if TYPE_CHECKING:
    from .formula_node import FormulaNode


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


@cache
def make_saved_properties(names: tuple[str, ...]) -> Mapping[str, property]:
    """Makes ``_saved_<name>`` and ``_raw_saved_<name>`` for the arguments and results of an op."""
    made: dict[str, property] = {}
    for name in names:
        made[f"_saved_{name}"] = _make_value_property(name)
        made[f"_raw_saved_{name}"] = _make_raw_property(name)
    return made


def _make_value_property(name: str) -> property:
    def read(self: FormulaNode) -> Any:
        return _sole([self.unpack_slot(place) for place in self.find_slots(name)])

    return property(read, doc=f"What was saved of '{name}', with its history; None where it was not needed.")


def _make_raw_property(name: str) -> property:
    def read(self: FormulaNode) -> Any:
        slots = self.open_slots().residuals
        return _sole([slots[place] for place in self.find_slots(name)])

    return property(read, doc=f"What was saved of '{name}', on which hooks can be registered.")


def _sole(found: list[Any]) -> Any:
    """One value alone, several as a tuple: those of a list of tensors."""
    return None if not found else found[0] if len(found) == 1 else tuple(found)
