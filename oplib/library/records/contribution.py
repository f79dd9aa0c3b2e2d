"""Contributions: what libraries say about an op, piece by piece, and the record they add up to.

Each piece dies with the library that made it. Pieces of one slot form a stack: the newest one is in force,
and when it dies the one below it is again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from oplib.library.schema import FunctionSchema

from .record import Derivative, Function, KernelKind, Record, Tag
from .sites import Site, find_site

KernelSlot = Literal["cpu", "cuda", "rocm", "gpu", "tpu", "default", "composite"]
Slot = Literal["definition", "fake", "derivative", "jvp", "vmap", "sharding"] | KernelSlot
KERNEL_SLOTS: tuple[KernelSlot, ...] = ("cpu", "cuda", "rocm", "gpu", "tpu", "default", "composite")


class Owner:
    """Stands for a library in the registry, which so never keeps the library itself alive.

    Attributes:
        namespace: of the library.
        site: where it was made.
    """

    __slots__ = ("namespace", "site")

    def __init__(self, namespace: str, site: Site) -> None:
        self.namespace = namespace
        self.site = site


# Owns what is registered without naming a library; it is never dropped.
FOREVER = Owner("", find_site())


@dataclass(frozen=True, slots=True)
class Definition:
    """What is fixed when an op is defined.

    Attributes:
        schema: with namespace and overload name.
        kind: how its kernels run; None if its first kernel decides.
        compiled: what ``compile=`` said; None if the kind decides.
        operand: names of number arguments that are operands.
        donates: names of written arguments whose buffer may be taken over.
        tags: promises beyond the schema.
        function: the decorated function of a ``custom_op``, which is what runs where a kernel is disabled;
            None for an op of ``define``, which only its own library may define.
    """

    schema: FunctionSchema
    kind: KernelKind | None = None
    compiled: bool | None = None
    operand: frozenset[str] = frozenset()
    donates: frozenset[str] = frozenset()
    tags: tuple[Tag, ...] = ()
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel, and its kind as far as its annotations tell it."""

    function: Function
    kind: KernelKind | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One piece: what stands in which slot, who said so and where. Compared by identity.

    The value is a :class:`Definition`, a :class:`Kernel`, a :class:`Derivative`, or else the rule itself.
    """

    slot: Slot
    value: Any
    owner: Owner
    site: Site


Contributions = tuple[Contribution, ...]


def find_newest(contributions: Sequence[Contribution], slot: Slot) -> Contribution | None:
    """Returns what is in force in a slot, or None."""
    return next((piece for piece in reversed(contributions) if piece.slot == slot), None)


def find_kind(contributions: Sequence[Contribution]) -> KernelKind | None:
    """Returns how an op's kernels run: as it was defined to, or as its first kernel says; None if unsaid."""
    definition = find_newest(contributions, "definition")
    if definition is not None and definition.value.kind is not None:
        return definition.value.kind
    explicit = [slot for slot in KERNEL_SLOTS if slot != "composite"]
    kernels = [piece.value for piece in contributions if piece.slot in explicit]
    if not kernels:
        return "composite" if find_newest(contributions, "composite") else None
    return next((kernel.kind for kernel in kernels if kernel.kind is not None), "tensor")


def compose_record(
    contributions: Sequence[Contribution], disabled: Iterable[str], *, version: int
) -> Record | None:
    """Adds pieces up to the record of an op.

    Args:
        contributions: the pieces that are alive, oldest first.
        disabled: slots whose kernel is switched off, so that the decorated function runs instead.
        version: of the new record.

    Returns:
        The record, or None where no piece defines the op.
    """
    defined = find_newest(contributions, "definition")
    if defined is None:
        return None
    definition: Definition = defined.value
    newest: dict[Slot, Any] = {piece.slot: piece.value for piece in contributions}  # the last one stays
    kind = find_kind(contributions) or "tensor"
    return Record(
        schema=definition.schema,
        kind=kind,
        kernels=_select_kernels(newest, definition, disabled),
        fake=newest.get("fake"),
        derivative=newest.get("derivative", Derivative()),
        jvp=newest.get("jvp"),
        vmap=newest.get("vmap"),
        sharding=newest.get("sharding"),
        operand=definition.operand,
        donates=definition.donates,
        compiled=kind == "array" if definition.compiled is None else definition.compiled,
        tags=definition.tags,
        is_custom=definition.function is not None,
        where=str(defined.site),
        version=version,
    )


def _select_kernels(
    newest: Mapping[Slot, Any], definition: Definition, disabled: Iterable[str]
) -> Mapping[str, Function]:
    """Returns the kernels in force by platform; a composite one serves where there is no default."""
    kernels: dict[str, Function] = {slot: newest[slot].function for slot in KERNEL_SLOTS if slot in newest}
    composite = kernels.pop("composite", None)
    if composite is not None:
        kernels.setdefault("default", composite)
    if definition.function is not None:
        kernels.update({slot: definition.function for slot in disabled if slot in kernels})
    return MappingProxyType(kernels)
