"""Binding the arguments of a call to a schema: the complete path, and all of its errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from oplib.errors import ArgumentError, ArgumentOverflowError, ArgumentTypeError, describe
from oplib.library.schema import Argument, FunctionSchema, is_int64
from oplib.tensor.storage.failed_reads import note_read

from .conversions import accept_operand, describe_expected, make_converter
from .plain_conversions import CONVERTERS, GENEROUS_CONVERTERS, TRACED, Converter, UnfitError
from .scalars import is_narrow


class Binder:
    """Binds calls to one schema. The constructor does all work that does not depend on the call, once.

    Args:
        schema: the schema of an overload.
        operand: the names of number arguments that are operands; such an argument may be an array without
            axes.

    Attributes:
        schema: the schema.
        converters: one function per argument, which converts a given value to the value that the kernel gets.

    Example:
        >>> from oplib.library.schema import parse_schema
        >>> Binder(parse_schema("demo::f(int[2] n, float by=1., *, str how='up') -> ()")).bind(
        ...     (3,), {"by": 2}
        ... )
        [[3, 3], 2.0, 'up']
    """

    __slots__ = ("_defaults", "_indices", "_scalar_indices", "converters", "schema")

    def __init__(self, schema: FunctionSchema, *, operand: Iterable[str] = ()) -> None:
        operands = frozenset(operand)
        is_built_in = schema.qualified_name.startswith("oplib::")
        self.schema = schema
        self.converters: tuple[Converter, ...] = tuple(
            _make_converter(argument, is_operand=argument.name in operands, is_built_in=is_built_in)
            for argument in schema.arguments
        )
        self._indices = {argument.name: index for index, argument in enumerate(schema.arguments)}
        self._scalar_indices = [
            index
            for index, argument in enumerate(schema.arguments)
            if argument.name in operands and str(argument.type).startswith("Scalar")
        ]
        self._defaults: dict[int, Any] = {}  # converted at first use: a device may not exist yet

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, op: str | None = None) -> list[Any]:
        """Returns one value per schema argument: converted, with defaults filled in, and with new lists.

        Args:
            args: the positional arguments.
            kwargs: the keyword arguments.
            op: the op's name for errors; by default the schema's.

        Raises:
            ArgumentError: the arguments do not fit the schema.
            ArgumentOverflowError: a number is an integer that the widest available dtype does not hold.
            DtypeError: a dtype that is not available, such as float64 while 64 bits are off.
            DeviceError: a string that names no device.
        """
        name = op or self.schema.qualified_name
        if self.schema.is_variadic:
            args = self._gather(args, kwargs)
        if len(args) > self.schema.num_positional:
            raise self._too_many(name, len(args))
        if kwargs:
            self._check_keywords(name, args, kwargs)
        values: list[Any] = []
        for keyword, index in self._indices.items():
            if index < len(args):
                value = args[index]
            elif keyword in kwargs:
                value = kwargs[keyword]
            elif self.schema.arguments[index].has_default_value():
                values.append(self._make_default(name, index))
                continue
            else:
                raise self._missing(name, args, kwargs)
            values.append(self._convert(name, index, value))
        for index in self._scalar_indices:
            if type(values[index]) is int:
                values[index] = self._fit_integer(name, index, values)
        return values

    def _gather(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the positional values with those of the variadic argument as one list."""
        last = self.schema.num_positional - 1
        is_named = self.schema.arguments[last].name in kwargs
        return args if is_named or len(args) < last else [*args[:last], list(args[last:])]

    def _convert(self, name: str, index: int, value: Any) -> Any:
        try:
            return self.converters[index](value)
        except UnfitError as error:
            raise self._unfit(name, index, value, str(error)) from None

    def _fit_integer(self, name: str, index: int, values: Sequence[Any]) -> int | float:
        """Returns a 64-bit integer as a float if it stands beside floats and JAX has no such integers."""
        number = values[index]
        if is_narrow(number):
            return number
        others = [value for value in values if hasattr(value, "dtype")]
        has_64_bits = is_int64(number)
        if has_64_bits and any(jnp.issubdtype(value.dtype, jnp.inexact) for value in others):
            return float(number)
        cure = "turn 64 bits on with jax.config.update('jax_enable_x64', True)" if has_64_bits else ""
        raise ArgumentOverflowError(
            f"{name}: argument '{self.schema.arguments[index].name}' is an integer that no dtype holds here. "
            f"Got {number} beside {', '.join(map(describe, others)) or 'no tensor'}. "
            f"Give float({number}){f', or {cure}' if cure else ''}."
        )

    def _make_default(self, name: str, index: int) -> Any:
        """Returns a converted default; a mutable default is made anew for every call."""
        if index not in self._defaults:
            value = self._convert(name, index, self.schema.arguments[index].default_value)
            if isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value):
                return value
            self._defaults[index] = value
        value = self._defaults[index]
        return value.copy() if type(value) is list else value

    def _check_keywords(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for keyword, value in kwargs.items():
            index = self._indices.get(keyword)
            if index is None:
                raise self._unknown(name, keyword)
            if index < len(args):
                raise ArgumentError(
                    f"{name}: argument '{keyword}' was given both as positional and keyword argument: "
                    f"{describe(args[index])} at position {index}, and {keyword}={describe(value)}. "
                    f"Declared: {self.schema}. Give it once."
                )

    def _too_many(self, name: str, count: int) -> ArgumentError:
        allowed = self.schema.num_positional
        keyword_only = [argument.name for argument in self.schema.arguments[allowed:]]
        plural = "" if allowed == 1 else "s"
        if keyword_only:
            return ArgumentError(
                f"{name}: takes {allowed} positional argument{plural}, but {count} were given. "
                f"Declared: {self.schema}. Give {', '.join(keyword_only)} by keyword."
            )
        return ArgumentError(
            f"{name}: takes at most {allowed} argument{plural}, but {count} were given. "
            f"Declared: {self.schema}. Leave out the last {count - allowed}."
        )

    def _unknown(self, name: str, keyword: str) -> ArgumentError:
        near = difflib.get_close_matches(keyword, self._indices, 1)
        known = ", ".join(self._indices) or "none"
        cure = f"The nearest name is '{near[0]}'." if near else f"There are: {known}."
        return ArgumentError(f"{name}: Unknown keyword argument '{keyword}'. Declared: {self.schema}. {cure}")

    def _missing(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ArgumentError:
        missing = [
            f"'{argument.name}' ({_locate(argument, index)})"
            for index, argument in enumerate(self.schema.arguments)
            if index >= len(args) and argument.name not in kwargs and not argument.has_default_value()
        ]
        plural = "" if len(missing) == 1 else "s"
        return ArgumentError(
            f"{name}: is missing value{plural} for argument{plural} {', '.join(missing)}. "
            f"Declared: {self.schema}. Pass {'them' if plural else 'it'}."
        )

    def _unfit(self, name: str, index: int, value: object, advice: str) -> ArgumentError:
        argument = self.schema.arguments[index]
        is_traced = advice == TRACED
        if is_traced:
            advice += (
                f"; the op could declare operand=('{argument.name}',), which serves all transformations, "
                "or static_argnames of oplib.jit or jax.jit could compile the number in"
            )
        error = ArgumentTypeError(
            f"{name}: argument '{argument.name}' ({_locate(argument, index)}) expected a value of type "
            f"'{argument.type}' but found {describe(value)}, of type {_name_type(value)}. "
            f"Declared: {self.schema}. {f'{advice}. ' if advice else ''}"
            f"Pass {describe_expected(argument.type)}."
        )
        return note_read(error) if is_traced else error


def _make_converter(argument: Argument, *, is_operand: bool, is_built_in: bool) -> Converter:
    """Returns a converter; that of a built-in op accepts None for a default empty list, as torch does."""
    convert = make_converter(argument.type, GENEROUS_CONVERTERS if is_built_in else CONVERTERS)
    if is_built_in and argument.has_default_value() and argument.default_value == []:
        return lambda value: [] if value is None else convert(value)
    return accept_operand(convert) if is_operand else convert


def _name_type(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ == "Tensor" else kind.__name__


def _locate(argument: Argument, index: int) -> str:
    return "keyword-only" if argument.kwarg_only else f"position {index}"
