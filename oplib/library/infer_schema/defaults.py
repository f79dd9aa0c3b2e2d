"""The default of a parameter, as the schema stores it."""

from __future__ import annotations

import enum
import typing
from typing import Any

import numpy as np

from oplib.library.schema import BaseType, ListType, OptionalType, SchemaType, TupleType, is_int64
from oplib.tensor.devices.device import Device


class UnsupportedDefaultError(Exception):
    """A default that does not fit the type of its parameter, or that a schema cannot hold."""


def fit_default(type_: SchemaType, value: Any, hint: Any) -> Any:
    """Returns a default as a value of its type.

    Args:
        type_: the type of the parameter.
        value: the default of the parameter.
        hint: the annotation, which decides whether a sequence is a tuple.

    Raises:
        UnsupportedDefaultError: the default does not fit.
    """
    if isinstance(type_, OptionalType):
        return None if value is None else fit_default(type_.element, value, hint)
    if isinstance(type_, (ListType, TupleType)):
        # A list is mutable; and a kernel that declares a list must not receive a tuple.
        if not isinstance(value, tuple) or not _is_tuple_hint(hint):
            raise UnsupportedDefaultError
        return _fit_items(type_, value, hint)
    if isinstance(type_, BaseType) and (type_.choices is None or _is_choice(value, type_.choices)):
        return _fit_base(type_.name, value)
    raise UnsupportedDefaultError


def _fit_items(type_: ListType | TupleType, value: tuple[Any, ...], hint: Any) -> tuple[Any, ...]:
    if isinstance(type_, ListType):
        return tuple(fit_default(type_.element, item, hint) for item in value)
    if len(value) != len(type_.elements):
        raise UnsupportedDefaultError
    return tuple(
        fit_default(element, item, hint) for element, item in zip(type_.elements, value, strict=True)
    )


def _fit_base(name: str, value: Any) -> Any:
    if name in ("Any", "Tree"):
        return _fit_static(value)
    if name in ("int", "float", "bool", "Scalar"):
        return _fit_number(name, value)
    if name == "str" and isinstance(value, str):
        return str(value)
    if name == "Device" and isinstance(value, (str, Device)):
        return str(value)
    if name == "ScalarType" and (isinstance(value, (np.dtype, type)) or hasattr(value, "dtype")):
        return _fit_dtype(value)
    # A combination of flags may have no name to print.
    if name == "Enum" and isinstance(value, enum.Enum) and str(value.name).isidentifier():
        return value
    raise UnsupportedDefaultError


def _fit_static(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise UnsupportedDefaultError from None
    return value


def _fit_number(name: str, value: Any) -> int | float | complex:
    is_bool = isinstance(value, bool)
    if name == "Scalar" and type(value) in (int, float, bool, complex):
        return value
    if name == "int" and isinstance(value, int) and is_int64(value):
        return int(value)
    if name == "float" and isinstance(value, (int, float)) and not is_bool:
        return float(value)
    if name == "bool" and is_bool:
        return value
    raise UnsupportedDefaultError


def _fit_dtype(value: Any) -> np.dtype[Any]:
    """Accepts jax.numpy.float32 and numpy.float32 as dtypes too."""
    try:
        return np.dtype(value)
    except TypeError:
        raise UnsupportedDefaultError from None


def _is_choice(value: Any, choices: tuple[Any, ...]) -> bool:
    return any(type(value) is type(choice) and value == choice for choice in choices)


def _is_tuple_hint(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(map(_is_tuple_hint, typing.get_args(hint)))
