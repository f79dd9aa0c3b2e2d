"""The types an argument or a return can have in a schema.

A type prints as it is written in a schema (``int[2]?``) and is equal to another by that spelling. What only
hints can tell, the members of an ``Enum`` or the values of a ``Literal``, travels along in ``choices`` and is
not part of the spelling, so that a schema is equal to what its text parses to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BASE_TYPES = (
    "Tensor",
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "Scalar",
    "ScalarType",
    "Device",
    "Generator",
    "Enum",
    "Any",
)


class SchemaType:
    """A type of the schema language; ``str(type)`` is its spelling there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BaseType(SchemaType):
    """A type without parts, one of :data:`BASE_TYPES`.

    Args:
        name: its spelling.
        choices: the only values it admits, where hints named them: the values of a ``Literal``, the members
            of an ``Enum`` class; None if all are admitted. No part of equality.

    Example:
        >>> str(BaseType("Tensor"))
        'Tensor'
    """

    name: str
    choices: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OptionalType(SchemaType):
    """``element?``: a value of the element type, or None."""

    element: SchemaType

    def __str__(self) -> str:
        return f"{self.element}?"


@dataclass(frozen=True, slots=True)
class ListType(SchemaType):
    """``element[]``, or ``element[N]``, which also takes one number and repeats it N times."""

    element: SchemaType
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.element}{spell_brackets(self)}"


@dataclass(frozen=True, slots=True)
class TupleType(SchemaType):
    """``(A, B)``: a tuple with one type for each place."""

    elements: tuple[SchemaType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


class EnumDefault(str):
    """The default of an ``Enum`` argument as a schema's text names it, ``Color.RED``, its class unknown."""

    __slots__ = ()


TENSOR = BaseType("Tensor")
OPTIONAL_TENSOR = OptionalType(TENSOR)


def spell_brackets(type_: ListType) -> str:
    """Returns ``[]`` or ``[N]``."""
    return "[]" if type_.size is None else f"[{type_.size}]"


def is_tensorlist_like_type(type_: SchemaType) -> bool:
    """Tells whether a type is one of the four lists of tensors that a tape looks into.

    These are ``Tensor[]``, ``Tensor?[]``, ``Tensor[]?`` and ``Tensor?[]?``.

    Args:
        type_: the type of an argument or of a return.

    Example:
        >>> is_tensorlist_like_type(OptionalType(ListType(TENSOR)))
        True
        >>> is_tensorlist_like_type(TENSOR)
        False
    """
    inside = type_.element if isinstance(type_, OptionalType) else type_
    return isinstance(inside, ListType) and inside.element in (TENSOR, OPTIONAL_TENSOR)


def has_tensor(type_: SchemaType) -> bool:
    """Tells whether values of this type hold tensors, at any depth.

    Args:
        type_: the type of an argument or of a return.

    Example:
        >>> has_tensor(TupleType((BaseType("int"), ListType(TENSOR))))
        True
    """
    if isinstance(type_, TupleType):
        return any(map(has_tensor, type_.elements))
    if isinstance(type_, (ListType, OptionalType)):
        return has_tensor(type_.element)
    return type_ == TENSOR
