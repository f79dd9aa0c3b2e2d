"""The saved values of a compiled node, in one form for all the ways in which a node holds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oplib.autograd.array_functions.array_function import BackwardPlan
from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.saved.slots import SavedSlots
from oplib.tensor import Storage


@dataclass(frozen=True, slots=True)
class Residuals:
    """The saved values of one node.

    Attributes:
        plan: the plan of the node.
        values: the values that its formula reads.
        storages: the storages that they were read from.
        versions: the versions of these storages when the values were saved.
        read_values: the values from which intermediates are computed again.
        read_storages: the storages that they were read from.
        read_versions: the versions of these storages when the values were saved.
        is_freed: whether a backward pass has freed the values.
    """

    plan: BackwardPlan
    values: tuple[Any, ...] = ()
    storages: tuple[Storage, ...] = ()
    versions: tuple[int, ...] = ()
    read_values: tuple[Any, ...] = ()
    read_storages: tuple[Storage, ...] = ()
    read_versions: tuple[int, ...] = ()
    is_freed: bool = False

    def sourced(self) -> Iterable[tuple[Any, int]]:
        """Returns the values, each with the index of its input, output or intermediate."""
        return zip(self.values, self.plan.sources, strict=False)

    def sourced_reads(self) -> Iterable[tuple[Any, int]]:
        """Returns the same for the values that intermediates are computed from."""
        return zip(self.read_values, self.plan.extra_reads, strict=False)


def read_residuals(node: FormulaNode) -> Residuals:
    """Reads the saved values of a node. Packed values are unpacked."""
    plan, saved = node.plan, node.saved
    if saved is None:
        return Residuals(plan, is_freed=True)
    if isinstance(saved, SavedSlots):
        name = node.name()
        return Residuals(
            plan,
            saved.read(name),
            tuple([slot.storage for slot in saved.residuals]),
            tuple([slot.storage.version for slot in saved.residuals]),
            tuple([slot.read(name) for slot in saved.reads]),
            tuple([slot.storage for slot in saved.reads]),
            tuple([slot.storage.version for slot in saved.reads]),
        )
    count = len(plan.sources)
    versions = (0,) * count if node.versions is None else node.versions
    return Residuals(plan, saved[:count], saved[count:], versions, *(node.kept or ((), (), ())))
