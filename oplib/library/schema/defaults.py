"""The defaults of arguments: the text after ``=``, read by type."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from oplib.generated_code import parse_literal

from .reader import TokenReader
from .types import BaseType, EnumDefault, ListType, OptionalType, SchemaType, TupleType, is_int64

_DTYPE_SYNONYMS = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}


class DefaultReader(TokenReader):
    """Reads the default of an argument of a given type. Lists are returned as tuples."""

    def read_default(self, type_: SchemaType) -> Any:
        """Reads a default of this type and returns it, or raises."""
        if isinstance(type_, OptionalType):
            return self._read_none() if self.token.text == "None" else self.read_default(type_.element)
        if isinstance(type_, ListType):
            return self._read_list(type_)
        if isinstance(type_, TupleType):
            return self._read_tuple(type_)
        assert isinstance(type_, BaseType)
        if type_.is_number:
            return self._read_number_of(type_.name)
        return self._read_value(type_.name)

    def _read_none(self) -> None:
        self.advance()

    def _read_list(self, type_: ListType) -> tuple[Any, ...]:
        if type_.size is not None and type_.element.is_number and not self.at("["):
            return (self.read_default(type_.element),) * type_.size
        self.expect("[")
        return tuple(self.read_items("]", lambda: self.read_default(type_.element)))

    def _read_tuple(self, type_: TupleType) -> tuple[Any, ...]:
        items: list[Any] = []
        for element in type_.elements:
            self.expect("," if items else "(")
            items.append(self.read_default(element))
        self.take(",")
        self.expect(")")
        return tuple(items)

    def _read_value(self, name: str) -> Any:
        token = self.token
        if name in ("str", "Device"):
            if token.kind != "string":
                self.fail("a string in quotes")
            return parse_literal(self.advance().text)
        if name == "ScalarType":
            return self._read_dtype()
        if name == "Enum":
            owner = self.read_name("a member such as Color.RED").text
            self.expect(".")
            return EnumDefault(f"{owner}.{self.read_name('the name of a member').text}")
        if name in ("Any", "Tree"):
            return self._read_anything()
        return self.refuse(
            token, f"a {name} has no default. To make the argument optional, write `{name}? ...=None`."
        )

    def _read_dtype(self) -> Any:
        token = self.read_name("the name of a dtype")
        try:
            return jnp.dtype(_DTYPE_SYNONYMS.get(token.text, token.text))
        except TypeError:
            self.refuse(
                token, f"there is no dtype {token}. Write float32, int64, bool, bfloat16 or the like."
            )

    def _read_anything(self) -> Any:
        if self.token.kind == "string":
            return self._read_value("str")
        return self._read_none() if self.token.text == "None" else self._read_number()

    def _read_number_of(self, name: str) -> Any:
        """Reads a number and converts it to a type; accepts another type only if the value stays the same."""
        start = self.token
        value = self._read_number()
        if name == "Scalar":
            return value
        if name == "int" and isinstance(value, int) and is_int64(value):
            return int(value)
        if name == "bool" and isinstance(value, int) and value in (0, 1):
            return bool(value)
        if name == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if name == "complex" and not isinstance(value, bool):
            return complex(value)
        return self.refuse(start, f"default {value!r} does not fit type '{name}'. Change one of them.")

    def _read_number(self) -> complex:
        start = self.token
        negative = self.take("-")
        token = self.token
        if token.text in ("True", "False") and not negative:
            self.advance()
            return token.text == "True"
        if token.text == "None":
            self.refuse(
                token, "default None does not fit this type. Write `?` behind the type to allow None."
            )
        first = self._read_unsigned()
        value = _negate(first) if negative else first
        if isinstance(first, complex) or not (self.at("+") or self.at("-")):
            return value
        subtract = self.advance().text == "-"
        imaginary = self._read_unsigned()
        if not isinstance(imaginary, complex):
            self.refuse(
                start, "invalid numeric default value: a number, or a complex one as 1.+2.j, is expected."
            )
        return complex(value, -imaginary.imag if subtract else imaginary.imag)

    def _read_unsigned(self) -> complex:
        token = self.token
        if token.kind != "number" and token.text not in ("inf", "nan", "infj", "nanj"):
            self.fail("a number", "This is an invalid numeric default value.")
        text = self.advance().text
        if text.endswith("j"):
            return complex(0.0, float(text[:-1]))
        return int(text) if text.isdigit() else float(text)


def _negate(value: complex) -> complex:
    return complex(0.0, -value.imag) if isinstance(value, complex) else -value
