"""The key of a call in the fast path: it finds the specialization from unconverted arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.generated_code import inlined
from oplib.library.arguments.layout import freeze
from oplib.library.records.record import Record
from oplib.library.schema import Argument

MAX_OPTIONAL = 2  # each optional tensor doubles the text
LISTS = frozenset({list, tuple})


def is_eligible(record: Record) -> bool:
    """Whether the fast path can serve some calls of an op."""
    arguments = record.schema.arguments
    return (
        record.kind == "array"
        and record.compiled
        and "default" in record.kernels  # so no platform is without one; which it is, lowering decides
        and not record.schema.is_mutable
        and not record.draws
        and any(argument.is_tensor or _is_list(argument) for argument in arguments)
        and all(
            argument.is_tensor or argument.is_optional_tensor or _is_list(argument)
            for argument in arguments
            if argument.has_tensor
        )
        and sum(argument.is_optional_tensor for argument in arguments) <= MAX_OPTIONAL
        and len(record.schema.returns) > 0
        and all(output.is_tensor for output in record.schema.returns)
    )


def _is_list(argument: Argument) -> bool:
    return str(argument.type) == "Tensor[]"


class FastKey:
    """Which arguments of an op belong to the key.

    Attributes:
        fixed: for each static argument its place, and the function that returns its parts of the key.
        optional: the places of optional tensors: whether one is given is a part of the key.
        lists: the places of lists of tensors: their lengths are parts of the key.
    """

    def __init__(self, record: Record) -> None:
        arguments = list(enumerate(record.schema.arguments))
        self.fixed = [
            (place, _choose_parts(str(argument.type).rstrip("?")))
            for place, argument in arguments
            if not argument.has_tensor and argument.name not in record.operand
        ]
        self.optional = [place for place, argument in arguments if argument.is_optional_tensor]
        self.lists = [place for place, argument in arguments if _is_list(argument)]

    def make(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the key of a call from all its arguments."""
        fixed = [(values[place], list_parts) for place, list_parts in self.fixed]
        return make_key(fixed, [values[place] is None for place in self.optional], self.measure(values))

    def measure(self, values: Sequence[Any]) -> tuple[int, ...]:
        """Returns the lengths of the lists of tensors in a call."""
        return tuple([len(values[place]) for place in self.lists])

    def takes(self, values: Sequence[Any]) -> bool:
        """Whether calls like this one have a key: what stands for a list of tensors is a list or a tuple."""
        return all(values[place].__class__ in LISTS for place in self.lists)


Parts = Callable[[Any], tuple[Any, ...]]


@inlined
def make_key(
    fixed: Sequence[tuple[Any, Parts]], absent: Sequence[bool], lengths: Sequence[int]
) -> tuple[Any, ...]:
    """Returns a key.

    Args:
        fixed: the static arguments, each with the function that returns its parts.
        absent: for each optional tensor, whether it is None.
        lengths: of the lists of tensors.
    """
    return (*[part for value, list_parts in fixed for part in list_parts(value)], *absent, *lengths)


def _choose_parts(kind: str) -> Parts:
    if kind in ("int", "bool", "str"):
        return list_plain_parts
    if kind in ("float", "Scalar"):
        return list_float_parts
    return list_ints_parts if kind.startswith("int[") else list_frozen_parts


@inlined
def list_plain_parts(value: Any) -> tuple[Any, ...]:
    """The parts of an int, bool or str: True and 1 are equal, so the class belongs to the key."""
    return (value.__class__, value)


@inlined
def list_float_parts(value: Any) -> tuple[Any, ...]:
    """The parts of a float: the text of a zero tells 0.0, -0.0 and None apart."""
    return (value.__class__, value or str(value))


@inlined
def list_ints_parts(value: Any) -> tuple[Any, ...]:
    """The part of a list of ints: most are one number, which no other value gives as a key."""
    return (value if value is None or value.__class__ is int else freeze_ints(value),)


@inlined
def list_frozen_parts(value: Any) -> tuple[Any, ...]:
    """The part of any other value."""
    return (None if value is None else freeze_softly(value),)


def freeze_softly(value: Any) -> object:
    """As ``freeze``, but a value that cannot be hashed or contains itself gives a key that no other has."""
    try:
        return freeze(value)
    except (TypeError, RecursionError):
        return object()


def freeze_ints(value: Any) -> object:
    """As ``freeze_softly``, for a value that is nearly always a short list of numbers."""
    return (*value, *map(type, value)) if value.__class__ in (tuple, list) else freeze_softly(value)
