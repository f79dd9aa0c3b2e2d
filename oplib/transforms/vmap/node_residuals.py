"""What a compiled node has saved, however it holds it."""

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
        plan: of the node.
        values: what its formula reads.
        storages: what these were read from.
        versions: of these, when they were saved.
        read_values: what its intermediates are computed from anew.
        read_storages: what these were read from.
        read_versions: of these, when they were saved.
        is_freed: a backward pass has freed it all.
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
        """The values, each with the index of the input, output or intermediate that it is."""
        return zip(self.values, self.plan.sources, strict=False)

    def sourced_reads(self) -> Iterable[tuple[Any, int]]:
        """The same for what intermediates are computed from."""
        return zip(self.read_values, self.plan.extra_reads, strict=False)


def read_residuals(node: FormulaNode) -> Residuals:
    """Reads what a node has saved; what hooks have packed is unpacked."""
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
