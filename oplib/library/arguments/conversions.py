"""Conversion of given values to the values that a kernel gets: one converter per schema type, made once."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from oplib.library.schema import BASE_TYPES, BaseType, ListType, OptionalType, SchemaType, TupleType
from oplib.protocols import Values
from oplib.tensor import Tensor

from .plain_conversions import PYTHON_NUMBERS, Converter, UnfitError, convert_to_array, is_array


def make_converter(type_: SchemaType, bases: Mapping[str, Converter]) -> Converter:
    """Returns the converter of a type.

    Args:
        type_: any type.
        bases: the converters of the types without parts, by name.
    """
    if isinstance(type_, OptionalType):
        convert = make_converter(type_.element, bases)
        return lambda value: None if value is None else convert(value)
    if isinstance(type_, ListType):
        return _make_list_converter(type_, make_converter(type_.element, bases))
    if isinstance(type_, TupleType):
        return _make_tuple_converter([make_converter(element, bases) for element in type_.elements])
    assert isinstance(type_, BaseType)
    convert = bases[type_.name]
    return convert if type_.choices is None else _limit(convert, type_.choices)


def accept_operand(convert: Converter) -> Converter:
    """Returns a converter that accepts an array without axes: the value of an operand may be traced."""

    def pass_or_convert(value: Any) -> Any:
        if not isinstance(value, (jax.Array, Tensor)) and hasattr(value, "__jax_array__"):
            value = convert_to_array(value)
        if isinstance(value, (jax.Array, Tensor)) and value.ndim == 0:
            return value
        return convert(value)

    return pass_or_convert


def list_items(value: Any) -> list[Any]:
    """Returns the items of a sequence, set, range, generator or 1-d numpy array as a new list."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return value.tolist()
    if is_array(value):
        raise UnfitError("Pass a list, such as .tolist() gives")
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise UnfitError
    return list(value)


def _make_list_converter(type_: ListType, convert: Converter) -> Converter:
    element, size = type_.element, type_.size
    is_number = element.is_number

    def convert_list(value: Any) -> list[Any]:
        if size is not None and is_number and _is_single(value):
            return [convert(value)] * size
        if not is_number and is_array(value):  # an array stands for neither its rows nor its numbers
            raise UnfitError("Put it into a list, even if it is the only one")
        return _convert_items(convert, list_items(value))

    return (lambda value: tuple(convert_list(value))) if type_.is_tuple else convert_list


def _is_single(value: object) -> bool:
    if isinstance(value, (*PYTHON_NUMBERS, np.generic)):
        return True
    return is_array(value) and getattr(value, "ndim", 1) == 0


def _make_tuple_converter(converters: list[Converter]) -> Converter:
    def convert_tuple(value: Any) -> Values:
        items = list_items(value)
        if len(items) != len(converters):
            raise UnfitError(f"It has {len(items)} elements and needs {len(converters)}")
        pairs = zip(converters, items, strict=True)
        return tuple(_convert_item(convert, item, index) for index, (convert, item) in enumerate(pairs))

    return convert_tuple


def _convert_items(convert: Converter, items: list[Any]) -> list[Any]:
    try:
        return list(map(convert, items))
    except UnfitError:  # run again to find the item
        return [_convert_item(convert, item, index) for index, item in enumerate(items)]


def _convert_item(convert: Converter, item: Any, index: int) -> Any:
    try:
        return convert(item)
    except UnfitError as error:
        advice = f": {error}" if str(error) else ""
        raise UnfitError(f"Its element {index} does not fit{advice}") from None


def _limit(convert: Converter, choices: Values) -> Converter:
    """Restricts a converter to the values of a ``Literal``, or to the members of one enum."""
    kind = type(choices[0])
    is_whole_flag = issubclass(kind, enum.Flag) and choices == tuple(kind)  # its members combine

    def convert_choice(value: Any) -> Any:
        converted = convert(value)
        if type(converted) is kind and (is_whole_flag or converted in choices):
            return converted
        raise UnfitError(
            f"Choose one of {', '.join(map(str if issubclass(kind, enum.Enum) else repr, choices))}"
        )

    return convert_choice


def describe_expected(type_: SchemaType) -> str:
    """Returns a phrase that says which values a type accepts."""
    if isinstance(type_, OptionalType):
        return f"None or {describe_expected(type_.element)}"
    if isinstance(type_, ListType):
        many = f"a sequence, each element {describe_expected(type_.element)}"
        takes_one = type_.size is not None and type_.element.is_number
        return f"{many}; or one for all {type_.size}" if takes_one else many
    if isinstance(type_, TupleType):
        return f"a tuple of {len(type_.elements)}: {', '.join(map(describe_expected, type_.elements))}"
    return BASE_TYPES[str(type_)]
