"""Checks of a kernel's results against the declared returns, and their conversion to one form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.errors import ResultError, ResultTypeError, describe
from oplib.library.schema import (
    BaseType,
    FunctionSchema,
    ListType,
    OptionalType,
    Return,
    SchemaType,
    TupleType,
)

from .conversions import make_converter
from .plain_conversions import CONVERTERS, Converter, UnfitError, is_array, to_bool, to_scalar

Check = Callable[[Any], list[Any]]
FORWARD = "the registered forward"


def check_results(schema: FunctionSchema, part: str = "the kernel") -> Check:
    """Returns the function that checks and converts the results of kernels of this schema.

    The function returns a list with one value per declared return: a list for a list, a tuple for a tuple, a
    Python number for a number, and for ``Tensor`` the array that the kernel returned. A pytree is unchanged.

    Args:
        schema: the schema of an overload.
        part: what returned them, for errors.

    Returns:
        A function of a kernel's result, made once for each schema. It raises ResultError if a result has the
        wrong kind or the number of results is wrong, and ResultTypeError for a single value if the schema has
        several returns.

    Example:
        >>> from oplib.library.schema import parse_schema
        >>> check_results(parse_schema("demo::f() -> (float, int)"))([1, True])
        [1.0, 1]
    """
    check = schema.result_checks.get(part)
    if check is None:
        check = schema.result_checks[part] = _make_check(schema, part)
    return check


def _make_check(schema: FunctionSchema, part: str) -> Check:
    name = schema.qualified_name
    if not schema.returns:
        return lambda result: _check_nothing(name, part, result)
    converters = [_make_result_converter(returned.type) for returned in schema.returns]
    if len(converters) == 1:
        return lambda result: [_convert(schema, part, 0, converters[0], result)]

    def check_several(result: Any) -> list[Any]:
        _check_count(schema, part, result)
        pairs = enumerate(zip(converters, result, strict=True))
        return [_convert(schema, part, index, convert, value) for index, (convert, value) in pairs]

    return check_several


def _check_nothing(name: str, part: str, result: object) -> list[Any]:
    if result is not None:
        raise ResultError(
            f"{name}: {part} returned {describe(result)}, but its schema declares no results: -> (). "
            f"Return None, or declare the result."
        )
    return []


def _check_count(schema: FunctionSchema, part: str, result: Any) -> None:
    expected = len(schema.returns)
    if not isinstance(result, (tuple, list)):
        raise ResultTypeError(
            f"{schema.qualified_name}: {part} returned {describe(result)}, a {type(result).__name__}. "
            f"Declared are {expected} results: {_print_returns(schema)}. "
            f"{_advise(part, result)}Return a tuple."
        )
    if len(result) != expected:
        raise ResultError(
            f"{schema.qualified_name}: {part} returned {len(result)} results. Declared are {expected}: "
            f"{_print_returns(schema)}. {_advise(part, result)}Return as many."
        )


def _convert(schema: FunctionSchema, part: str, index: int, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except UnfitError as error:
        returned: Return = schema.returns[index]
        which = "" if len(schema.returns) == 1 else f" {index}"
        advice = f"{error}. " if str(error) else _advise(part, value)
        raise ResultError(
            f"{schema.qualified_name}: {part}'s result{which} has the wrong type. Unable to cast "
            f"{describe(value)}, of type {type(value).__name__}, to '{returned.type}'. Declared: "
            f"{_print_returns(schema)}. {advice}Return what is declared, or declare what is returned."
        ) from None


def _advise(part: str, result: Any) -> str:
    if result is None:
        return "A function without a return statement returns None. "
    if part == FORWARD:
        return "It returns what the kernel returns; save other values by ctx.save_for_backward. "
    return ""


def take_returned_arguments(
    name: str, schema: FunctionSchema, results: list[Any], values: Sequence[Any]
) -> list[Any]:
    """Checks the results that are written arguments (``Tensor(a!)``), and returns the other results.

    Raises:
        ResultError: another object stands in the position of a written argument.
    """
    for index, result in zip(schema.returned_arguments, results, strict=True):
        if index is not None and result is not values[index]:
            raise ResultError(
                f"{name}: the kernel must return its written arguments (with Tag.inplace its first argument, "
                f"with Tag.out its mutable keyword-only arguments). In the place of "
                f"'{schema.arguments[index].name}' it returned another object: {describe(result)}. Return "
                "the argument itself."
            )
    return leave_out_returned_arguments(schema, results)


def leave_out_returned_arguments(schema: FunctionSchema, results: list[Any]) -> list[Any]:
    """Returns the results that are no written arguments."""
    pairs = zip(schema.returned_arguments, results, strict=True)
    return [result for index, result in pairs if index is None]


def put_back_returned_arguments(schema: FunctionSchema, rest: Sequence[Any], written: Any) -> list[Any]:
    """Returns all results in order: the given ones, and the written arguments at their positions."""
    others = iter(rest)
    return [next(others) if index is None else written[index] for index in schema.returned_arguments]


def _print_returns(schema: FunctionSchema) -> str:
    text = ", ".join(map(str, schema.returns))
    return f"-> {text}" if len(schema.returns) == 1 else f"-> ({text})"


def _make_result_converter(type_: SchemaType) -> Converter:
    """Returns a converter as for arguments, except that an array is no sequence and a number is no tensor."""
    if isinstance(type_, OptionalType):
        convert = _make_result_converter(type_.element)
        return lambda value: None if value is None else convert(value)
    if isinstance(type_, (ListType, TupleType)):
        convert = make_converter(type_, _RESULT_CONVERTERS)
        return lambda value: convert(_require_sequence(value))
    if isinstance(type_, BaseType) and type_.container is not None:
        return partial(_require_instance, type_.container)
    return make_converter(type_, _RESULT_CONVERTERS)


def _require_instance(container: type, value: Any) -> Any:
    if not isinstance(value, container):
        raise UnfitError(f"Its annotation names {container.__name__}")
    return value


def _require_sequence(value: Any) -> Any:
    if is_array(value) or isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise UnfitError("It is no list and no tuple")
    return value


def _to_result_tensor(value: Any) -> Any:
    if is_array(value):
        return value
    if isinstance(value, (int, float, complex)):
        raise UnfitError("A number is no tensor: wrap it in jax.numpy.asarray")
    raise UnfitError


def _to_result_bool(value: Any) -> bool:
    if isinstance(value, bool) or (is_array(value) and value.dtype == jnp.bool_):
        return to_bool(value)
    raise UnfitError


def _to_result_scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else to_scalar(value)


_RESULT_CONVERTERS = CONVERTERS | {
    "Tensor": _to_result_tensor,
    "bool": _to_result_bool,
    "Scalar": _to_result_scalar,
}


def require_same_results(op: str, part: str, outputs: Sequence[Any], due: Sequence[Any]) -> None:
    """Raises ResultError if what runs instead of a kernel returns other shapes or dtypes.

    Args:
        op: the name of the op.
        part: what has run, for errors.
        outputs: its flat results.
        due: the shapes and dtypes of the kernel's results; empty if they are not known.
    """
    got = [(value.shape, value.dtype) for value in outputs]
    if due and got != [(value.shape, value.dtype) for value in due]:
        raise ResultError(
            f"{op}: {part} and the kernel return different results. Got {describe(list(outputs))}, and from "
            f"the kernel {describe(list(due))}. Return the kernel's results, and nothing else beside them."
        )
