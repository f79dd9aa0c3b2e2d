"""The keys of the short cut: what tells its calls apart, before any argument is converted."""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

from oplib.library.arguments.layout import freeze
from oplib.library.records.record import Record

MAX_OPTIONAL = 2  # each optional tensor doubles the text


def is_eligible(record: Record) -> bool:
    """Whether the short cut can serve some calls of an op."""
    arguments = record.schema.arguments
    return (
        record.kind == "array"
        and record.compiled
        and "default" in record.kernels  # so no platform is without one; which it is, lowering decides
        and not record.schema.is_mutable
        and not record.draws
        and any(argument.is_tensor for argument in arguments)
        and all(
            argument.is_tensor or argument.is_optional_tensor for argument in arguments if argument.has_tensor
        )
        and sum(argument.is_optional_tensor for argument in arguments) <= MAX_OPTIONAL
        and len(record.schema.returns) > 0
        and all(output.is_tensor for output in record.schema.returns)
    )


class FastKey:
    """How the key of a call is computed: as text, for generated code.

    Args:
        record: of the op.
        names: of the variables that hold the arguments, if not their own.

    Attributes:
        names: of the arguments, as generated code spells them.
        fixed: names and kinds of the static arguments.
        optionals: names of the optional tensors: whether they are there is part of the key.
        names_used: what the text refers to.
    """

    def __init__(self, record: Record, names: list[str] | None = None) -> None:
        arguments = record.schema.arguments
        self.names = names or [
            argument.name if _is_plain_name(argument.name) else f"__p{place}"
            for place, argument in enumerate(arguments)
        ]
        pairs = list(zip(self.names, arguments, strict=True))
        self.fixed = [
            (name, str(argument.type).rstrip("?"))
            for name, argument in pairs
            if not argument.has_tensor and argument.name not in record.operand
        ]
        self.optionals = [name for name, argument in pairs if argument.is_optional_tensor]
        self.names_used = {"__freeze": freeze_softly, "__freeze_ints": freeze_ints, "__str": str}

    def spell(self, absent: set[str] | None = None) -> str:
        """Returns the key as text.

        Args:
            absent: the optional tensors that are known to be None, if the text is for such calls alone.
        """
        known = [f"{name} is None" if absent is None else str(name in absent) for name in self.optionals]
        parts = [*(_spell_part(name, kind) for name, kind in self.fixed), *known]
        return f"({', '.join(parts)},)" if parts else "()"

    def compile(self) -> Callable[..., tuple[Any, ...]]:
        """Returns the function from all arguments, by position, to their key."""
        return eval(f"lambda {', '.join(self.names)}: {self.spell()}", dict(self.names_used))


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _spell_part(name: str, kind: str) -> str:
    """Class and value; floats that equal another one, and containers, go the long way."""
    if kind in ("int", "bool", "str"):
        return f"{name}.__class__, {name}"
    if kind in ("float", "Scalar"):
        return f"{name}.__class__, {name} or __str({name})"  # which tells zeros apart, and None from them
    if kind.startswith("int["):  # most are one number, which no other value gives as a key
        return f"{name} if {name} is None or {name}.__class__ is int else __freeze_ints({name})"
    return f"None if {name} is None else __freeze({name})"


def freeze_softly(value: Any) -> object:
    """As ``freeze``, but what cannot be hashed gives a key that nothing has."""
    try:
        return freeze(value)
    except TypeError:
        return object()


def freeze_ints(value: Any) -> object:
    """As ``freeze_softly``, for what is nearly always a short list of numbers."""
    return (*value, *map(type, value)) if value.__class__ in (tuple, list) else freeze_softly(value)
