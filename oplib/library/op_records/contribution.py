"""Contributions: single facts about an op, and the record that is composed of them.

A contribution exists as long as the library that made it. The contributions to one slot form a stack: the
newest one is in force. When it is removed, the one below it is in force again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from oplib.frozen import frozen

from .record import Definition, Function, KernelKind, Record
from .sites import Site, find_site

KernelSlot = Literal["cpu", "cuda", "rocm", "gpu", "tpu", "default", "composite"]
AutocastSlot = Literal["autocast_cpu", "autocast_cuda", "autocast_tpu"]
RuleSlot = Literal["definition", "fake", "derivative", "jvp", "vmap", "sharding"]
Slot = RuleSlot | AutocastSlot | KernelSlot
AUTOCAST_SLOTS: dict[str, AutocastSlot] = {
    "cpu": "autocast_cpu", "cuda": "autocast_cuda", "tpu": "autocast_tpu",
}  # fmt: skip
_RULES: tuple[RuleSlot, ...] = ("fake", "derivative", "jvp", "vmap", "sharding")
_DEFINED = tuple(field.name for field in fields(Definition))
KERNEL_SLOTS: tuple[KernelSlot, ...] = ("cpu", "cuda", "rocm", "gpu", "tpu", "default", "composite")


class Owner:
    """Stands for a library in the registry, so that the registry does not keep the library alive.

    Attributes:
        namespace: the namespace of the library.
        site: the line where the library was made.
    """

    __slots__ = ("namespace", "site")

    def __init__(self, namespace: str, site: Site) -> None:
        self.namespace = namespace
        self.site = site


# The owner of registrations that name no library. It is never dropped.
FOREVER = Owner("", find_site())


@frozen
class Kernel:
    """A kernel, and its kind if its annotations give one."""

    function: Function
    kind: KernelKind | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One registered fact: its value, its slot, its owner and its site. Compared by identity.

    The value is a :class:`Definition`, a :class:`Kernel`, a :class:`Derivative`, or the rule itself.
    """

    slot: Slot
    value: Any
    owner: Owner
    site: Site


Contributions = tuple[Contribution, ...]


def find_newest(contributions: Sequence[Contribution], slot: Slot) -> Contribution | None:
    """Returns the newest contribution to a slot, or None."""
    return next((piece for piece in reversed(contributions) if piece.slot == slot), None)


def find_kind(contributions: Sequence[Contribution]) -> KernelKind | None:
    """Returns how the kernels of an op run, by its definition or an annotation; None if neither says it."""
    definition = find_newest(contributions, "definition")
    if definition is not None and definition.value.kind is not None:
        return definition.value.kind
    kernels = [piece for piece in contributions if piece.slot in KERNEL_SLOTS]
    explicit = [piece.value.kind for piece in kernels if piece.slot != "composite"]
    if kernels and not explicit:
        return "composite"
    return next((kind for kind in explicit if kind is not None), None)


def compose_record(
    contributions: Sequence[Contribution], disabled: Iterable[str], *, version: int
) -> Record | None:
    """Composes the record of an op from contributions.

    Args:
        contributions: the contributions in force or below one in force, oldest first.
        disabled: the slots whose kernel is disabled; the decorated function runs instead.
        version: the version of the new record.

    Returns:
        The record, or None if no contribution defines the op.
    """
    defined = find_newest(contributions, "definition")
    if defined is None:
        return None
    definition: Definition = defined.value
    newest: dict[Slot, Any] = {piece.slot: piece.value for piece in contributions}  # the newest one wins
    facts = {name: getattr(definition, name) for name in _DEFINED}
    facts["kind"] = kind = find_kind(contributions) or "tensor"
    if definition.compiled is None:
        facts["compiled"] = kind == "array"
    return Record(
        **facts,
        **{slot: newest[slot] for slot in _RULES if slot in newest},
        kernels=_select_kernels(newest, definition, disabled),
        autocast=MappingProxyType(
            {name: newest[slot] for name, slot in AUTOCAST_SLOTS.items() if slot in newest}
        ),
        where=str(defined.site),
        version=version,
    )


def _select_kernels(
    newest: Mapping[Slot, Any], definition: Definition, disabled: Iterable[str]
) -> Mapping[str, Function]:
    """Returns the kernels in force by platform; a composite kernel serves as a missing default kernel."""
    kernels: dict[str, Function] = {slot: newest[slot].function for slot in KERNEL_SLOTS if slot in newest}
    composite = kernels.pop("composite", None)
    if composite is not None:
        kernels.setdefault("default", composite)
    if definition.function is not None:
        kernels.update({slot: definition.function for slot in disabled if slot in kernels})
    return MappingProxyType(kernels)
