"""The canonical text of types and defaults. Parsing the text gives equal types and defaults."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from .alias import AliasInfo
from .types import BaseType, EnumDefault, ListType, OptionalType, SchemaType, TupleType, spell_brackets


def print_type(type_: SchemaType, alias: AliasInfo | None) -> str:
    """Returns a type with its alias marks, each after the type that it marks."""
    if isinstance(type_, OptionalType):
        return f"{print_type(type_.element, alias)}?"
    mark = _print_mark(alias)
    if isinstance(type_, ListType):
        inner = alias.elements[0] if alias is not None and alias.elements else None
        return f"{print_type(type_.element, inner)}{spell_brackets(type_)}{mark}"
    if isinstance(type_, TupleType):
        marks = (alias.elements if alias is not None else ()) or (None,) * len(type_.elements)
        return f"({', '.join(map(print_type, type_.elements, marks))}){mark}"
    return f"{type_}{mark}"


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
