"""The defaults of arguments: the text after ``=`` read by type, and values that are fitted to a type."""

from __future__ import annotations

import enum
import re
from contextlib import suppress
from typing import Any

import numpy as np

from oplib.generated_code import parse_literal
from oplib.tensor.devices.device import Device

from .reader import TokenReader, shorten
from .types import EnumDefault, ListType, OptionalType, SchemaType, TupleType, is_int64

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
_CONSTANTS = {"None": None, "True": True, "False": False}
_CURES = {
    "str": "Write a string in quotes.",
    "Device": "Write a string in quotes.",
    "ScalarType": "Write float32, int64, bool, bfloat16 or the like.",
    "Enum": "Write a member such as Color.RED.",
    "Tensor": "The only default is None, of `Tensor?`.",
    "Generator": "The only default is None, of `Generator?`.",
}


class UnsupportedDefaultError(ValueError):
    """A default that does not fit the type of its argument, or that a schema cannot hold."""


def read_default(reader: TokenReader, type_: SchemaType) -> Any:
    """Reads a default of this type and returns it, or raises SchemaError. Lists are returned as tuples."""
    if isinstance(type_, OptionalType):
        return None if reader.take("None") else read_default(reader, type_.element)
    if isinstance(type_, ListType):
        if type_.size is not None and type_.element.is_number and not reader.at("["):
            return (read_default(reader, type_.element),) * type_.size
        reader.expect("[")
        return tuple(reader.read_items("]", lambda: read_default(reader, type_.element)))
    if isinstance(type_, TupleType):
        items: list[Any] = []
        for element in type_.elements:
            reader.expect("," if items else "(")
            items.append(read_default(reader, element))
        reader.take(",")
        reader.expect(")")
        return tuple(items)
    start, text, name, is_after_word = reader.position, "", str(type_), False
    while reader.text not in (",", ")", "]", "") and not (is_after_word and reader.is_word):
        is_after_word = reader.is_word
        text += reader.advance()
    with suppress(ValueError, SyntaxError, TypeError):
        return _read_text(name, text)
    reader.position = start
    cure = "Write `?` behind the type to allow None."
    if text != "None":
        cure = _CURES.get(name, "Change one of them.")
    return reader.refuse(f"default {shorten(text)} does not fit type '{name}'. {cure}")


def _read_text(name: str, text: str) -> Any:
    """Returns the value of a text as a value of a base type, or raises."""
    if name == "ScalarType":
        return np.dtype(_DTYPE_SYNONYMS.get(text, text))
    if name == "Enum" and re.fullmatch(r"[^\W\d]\w*\.[^\W\d]\w*", text):
        return EnumDefault(text)
    value: Any
    if text[:1] in ("'", '"'):
        value = parse_literal(text)
    else:
        value = _CONSTANTS[text] if text in _CONSTANTS else _read_number(text)
    if name == "complex" and not isinstance(value, (bool, str)):
        return complex(value)
    return fit_value(name, bool(value) if name == "bool" and value in (0, 1) else value)


def _read_number(text: str) -> complex:
    if text.lstrip("-").isdecimal():
        return int(text)
    with suppress(ValueError):
        return float(text)
    return complex(text)


def fit_value(name: str, value: Any) -> Any:
    """Returns a default as a value of a base type.

    Args:
        name: the name of the type.
        value: the default.

    Raises:
        UnsupportedDefaultError: the default does not fit.
    """
    is_bool = isinstance(value, bool)
    if name in ("Any", "Tree") or (name == "Scalar" and type(value) in (int, float, bool, complex)):
        hash(value)
        return value
    if name == "int" and isinstance(value, int) and is_int64(value):
        return value if isinstance(value, enum.Enum) else int(value)
    if name == "float" and isinstance(value, (int, float)) and not is_bool:
        return float(value)
    if name == "bool" and is_bool:
        return value
    if name == "str" and isinstance(value, str):
        return value  # a member of an enum, or an object of a subclass, stays what it is
    if name == "Device" and isinstance(value, (str, Device)):
        return str(value)
    if name == "ScalarType" and (isinstance(value, (np.dtype, type)) or hasattr(value, "dtype")):
        dtype: Any = value
        return np.dtype(dtype)  # jax.numpy.float32 and numpy.float32 too
    # A combination of flags may have no name to print.
    if name == "Enum" and isinstance(value, enum.Enum) and str(value.name).isidentifier():
        return value
    raise UnsupportedDefaultError
