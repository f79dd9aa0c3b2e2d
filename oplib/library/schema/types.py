"""The types of arguments and returns in a schema, their alias marks, and the canonical text of both.

A type prints as a schema spells it (``int[2]?``), and types with the same spelling are equal. ``choices``
holds facts that only annotations give: the members of an ``Enum`` or the values of a ``Literal``. Equality
ignores ``choices``, so a schema is equal to the schema that its text parses to.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oplib.frozen import frozen

BASE_TYPES = {
    "Tensor": "a Tensor or an array",
    "int": "an int, a bool, or an integer array of one element",
    "float": "a real number, or a real array of one element",
    "bool": "a bool",
    "str": "a str",
    "complex": "a number",
    "Scalar": "a Python number",
    "ScalarType": "a dtype such as oplib.float32, or its name",
    "Device": "a device such as 'cpu'",
    "Generator": "a Generator, or a key of jax.random.key",
    "Enum": "a member of an enum",
    "Any": "anything",
    "Tree": "a pytree",
}
"""The types without parts, each with the values that it accepts, for errors."""
_NUMBERS = ("int", "float", "bool", "complex", "Scalar")


class SchemaType:
    """A type of the schema language; ``str(type)`` is its spelling in a schema."""

    __slots__ = ()

    def __str__(self) -> str:
        return print_type(self)

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return isinstance(self, BaseType) and self.name in _NUMBERS


@frozen
class BaseType(SchemaType):
    """A type without parts, one of :data:`BASE_TYPES`.

    Args:
        name: the spelling of the type.
        choices: the only values that the type admits, if annotations name them: the values of a ``Literal``,
            or the members of an ``Enum`` class. None admits all values. Equality ignores it.
        container: the class of a result that is a pytree, if its annotation names one. Equality ignores it.

    Example:
        >>> str(BaseType("Tensor"))
        'Tensor'
    """

    name: str
    choices: tuple[Any, ...] | None = field(default=None, compare=False, repr=False)
    container: type | None = field(default=None, compare=False, repr=False)


@frozen
class OptionalType(SchemaType):
    """``element?``: a value of the element type, or None."""

    element: SchemaType


@frozen
class ListType(SchemaType):
    """``element[]``, or ``element[N]``, which also accepts one number and repeats it N times.

    Attributes:
        element: the type of the items.
        size: N.
        is_tuple: code gets a tuple, as its annotation ``tuple[X, ...]`` says. Equality ignores it.
    """

    element: SchemaType
    size: int | None = None
    is_tuple: bool = field(default=False, compare=False, repr=False)


@frozen
class TupleType(SchemaType):
    """``(A, B)``: a tuple with one type per position."""

    elements: tuple[SchemaType, ...]


class EnumDefault(str):
    """The default of an ``Enum`` argument as a schema's text names it: ``Color.RED``, of unknown class."""

    __slots__ = ()


@dataclass(frozen=True)
class AliasInfo:
    """The alias mark of an argument or a return: ``(a!)``, ``(a|b)``, ``(a -> *)``.

    Attributes:
        is_write: the op writes the value or an element of it.
        before_set: the alias sets of the value before the call. Empty if only the elements have marks, as in
            ``Tensor(a!)[]``.
        after_set: the alias sets after the call; by default ``before_set``.
        elements: the marks of the elements: one entry for a list, one entry per position for a tuple. Empty
            if no element has a mark.
    """

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str] | None = None
    elements: tuple[AliasInfo | None, ...] = ()

    def __post_init__(self) -> None:
        if self.after_set is None:
            object.__setattr__(self, "after_set", self.before_set)


TENSOR = BaseType("Tensor")
ANY = BaseType("Any")
"""Any value that can be hashed; it is static. A result of this type is a pytree."""
TREE = BaseType("Tree")
"""Any value, as a pytree of JAX: its arrays and Tensors are operands, everything else is static."""
OPTIONAL_TENSOR = OptionalType(TENSOR)


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


def is_int64(number: int) -> bool:
    """Tells whether an ``int`` of a schema, which has 64 bits, holds a number."""
    return -(2**63) <= number < 2**63


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


def print_type(type_: SchemaType, alias: AliasInfo | None = None) -> str:
    """Returns a type with its alias marks, each after the type that it marks."""
    if isinstance(type_, OptionalType):
        return f"{print_type(type_.element, alias)}?"
    mark = _print_mark(alias)
    if isinstance(type_, ListType):
        inner = alias.elements[0] if alias is not None and alias.elements else None
        return f"{print_type(type_.element, inner)}[{'' if type_.size is None else type_.size}]{mark}"
    if isinstance(type_, TupleType):
        marks = (alias.elements if alias is not None else ()) or (None,) * len(type_.elements)
        return f"({', '.join(map(print_type, type_.elements, marks))}){mark}"
    assert isinstance(type_, BaseType)
    return f"{type_.name}{mark}"


def print_default(type_: SchemaType, value: Any) -> str:
    """Returns a frozen default as a schema spells it.

    Args:
        type_: the argument's type, which decides whether a sequence is a list or a tuple.
        value: the default.
    """
    if isinstance(type_, OptionalType) and value is not None:
        return print_default(type_.element, value)
    if isinstance(type_, ListType) and isinstance(value, tuple):
        return f"[{', '.join(print_default(type_.element, item) for item in value)}]"
    if isinstance(type_, TupleType) and isinstance(value, tuple):
        return f"({', '.join(map(print_default, type_.elements, value))})"
    if isinstance(value, str) and type_ == BaseType("str"):
        return _quote(value)  # a member of an enum too
    if isinstance(value, int) and type_ == BaseType("int"):
        return str(int(value))
    return print_value(value, as_float=type_ == BaseType("float"))


def print_value(value: Any, *, as_float: bool = False) -> str:
    """Returns the text of a default without parts; the lexer can read every such text."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, np.dtype):
        return value.name
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, complex):
        imaginary = _print_float(value.imag)
        return f"{_print_float(value.real)}{'' if imaginary[0] == '-' else '+'}{imaginary}j"
    if isinstance(value, float) or as_float:
        return _print_float(float(value))
    if isinstance(value, str) and not isinstance(value, EnumDefault):
        return _quote(value)
    if isinstance(value, (int, EnumDefault)):
        return str(value)
    return _quote(getattr(value, "__qualname__", None) or str(value))


def _print_mark(alias: AliasInfo | None) -> str:
    if alias is None or not alias.before_set:
        return ""
    before, after = "|".join(sorted(alias.before_set)), "|".join(sorted(alias.after_set or ()))
    moved = f" -> {after}" if after != before else ""
    return f"({before}{'!' if alias.is_write else ''}{moved})"


def _print_float(value: float) -> str:
    return repr(value).removesuffix("0") if repr(value).endswith(".0") else repr(value)


def _quote(text: str) -> str:
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
