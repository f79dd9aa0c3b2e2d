"""The types of arguments and returns in a schema.

A type prints as a schema spells it (``int[2]?``), and types with the same spelling are equal. ``choices``
holds facts that only annotations give: the members of an ``Enum`` or the values of a ``Literal``. Equality
ignores ``choices``, so a schema is equal to the schema that its text parses to.
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
    "Tree",
)


class SchemaType:
    """A type of the schema language; ``str(type)`` is its spelling in a schema."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BaseType(SchemaType):
    """A type without parts, one of :data:`BASE_TYPES`.

    Args:
        name: the spelling of the type.
        choices: the only values that the type admits, if annotations name them: the values of a ``Literal``,
            or the members of an ``Enum`` class. None admits all values. Equality ignores it.

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
    """``element[]``, or ``element[N]``, which also accepts one number and repeats it N times."""

    element: SchemaType
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.element}{spell_brackets(self)}"


@dataclass(frozen=True, slots=True)
class TupleType(SchemaType):
    """``(A, B)``: a tuple with one type per position."""

    elements: tuple[SchemaType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


class EnumDefault(str):
    """The default of an ``Enum`` argument as a schema's text names it: ``Color.RED``, of unknown class."""

    __slots__ = ()


TENSOR = BaseType("Tensor")
ANY = BaseType("Any")
"""Any value that can be hashed; it is static."""
TREE = BaseType("Tree")
"""Any value, as a pytree of JAX: its arrays and Tensors are operands, everything else is static."""
OPTIONAL_TENSOR = OptionalType(TENSOR)


def spell_brackets(type_: ListType) -> str:
    """Returns ``[]`` or ``[N]``."""
    return "[]" if type_.size is None else f"[{type_.size}]"


def is_tensorlist_like_type(type_: SchemaType) -> bool:
    """Tells whether a type is one of the four lists of tensors that the tape looks into.

    These are ``Tensor[]``, ``Tensor?[]``, ``Tensor[]?`` and ``Tensor?[]?``.

    Args:
        type_: the type of an argument or a return.

    Example:
        >>> is_tensorlist_like_type(OptionalType(ListType(TENSOR)))
        True
        >>> is_tensorlist_like_type(TENSOR)
        False
    """
    inside = type_.element if isinstance(type_, OptionalType) else type_
    return isinstance(inside, ListType) and inside.element in (TENSOR, OPTIONAL_TENSOR)


def has_tensor(type_: SchemaType) -> bool:
    """Tells whether values of this type contain tensors at any depth.

    Args:
        type_: the type of an argument or a return.

    Example:
        >>> has_tensor(TupleType((BaseType("int"), ListType(TENSOR))))
        True
    """
    if isinstance(type_, TupleType):
        return any(map(has_tensor, type_.elements))
    if isinstance(type_, (ListType, OptionalType)):
        return has_tensor(type_.element)
    return type_ == TENSOR
