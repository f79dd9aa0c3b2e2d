# ruff: noqa: A002  `input` is torch's name
"""Comparisons of whole Tensors that return a Python bool."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentValueError, DataTypeError, TracingError, describe
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.promotion import promote_types
from oplib.tensor.storage.failed_reads import note_read
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.known import find_value
from oplib.tensor.storage.metadata import TensorMetadata
from oplib.tracebacks import entry_point


@entry_point
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Returns whether ``abs(input - other) <= atol + rtol * abs(other)`` for all items.

    Args:
        input: a Tensor, or an array of JAX or numpy, as for every op.
        other: likewise, of the same dtype, and of a shape that broadcasts with ``input``.
        rtol: the tolerance relative to ``other``.
        atol: the absolute tolerance.
        equal_nan: whether two nans are equal.

    Returns:
        A Python bool.

    Raises:
        DataTypeError: an operand is neither.
        DtypeError: the dtype of a numpy array is not available, such as float64 while x64 is off.
        ArgumentError: the dtypes differ, or the shapes do not broadcast.
        ArgumentValueError: a tolerance is negative.
        TracingError: an operand is traced, and so has no values.

    Gradient:
        None: the result is a bool.

    Example:
        >>> import oplib
        >>> allclose(oplib.tensor([1.0, 2.0]), oplib.tensor([1.0, 2.000001]))
        True
    """
    first, second = _read("allclose", input, other)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise ArgumentValueError(
                f"allclose: {name} must be greater than or equal to zero. Got {tolerance}. Use 0 for none."
            )
    if first.dtype != second.dtype:
        raise ArgumentError(
            f"allclose: the dtypes did not match. Got {describe(first)} and {describe(second)}. "
            "Convert one: tensor.to(other.dtype)."
        )
    with jax.ensure_compile_time_eval():  # the values may be known in a trace
        first, second = _broadcast(first, second)
        if first.dtype == dtypes.bool:
            return bool((first == second).all())
        return bool(jnp.isclose(first, second, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


@entry_point
def equal(input: Any, other: Any) -> bool:
    """Returns whether two tensors have the same shape and equal items. A nan is not equal to anything.

    Args:
        input: a Tensor, or an array of JAX or numpy, as for every op.
        other: likewise. Items of different dtypes are compared as numbers.

    Returns:
        A Python bool.

    Raises:
        DataTypeError: an operand is neither.
        DtypeError: the dtype of a numpy array is not available, such as float64 while x64 is off.
        TracingError: an operand is traced, and so has no values.

    Gradient:
        None: the result is a bool.

    Example:
        >>> import oplib
        >>> equal(oplib.tensor([1.0, 2.0]), oplib.tensor([1, 2]))
        True
    """
    first, second = _read("equal", input, other)
    if first.shape != second.shape:
        return False
    with jax.ensure_compile_time_eval():  # the values may be known in a trace
        if first.dtype != second.dtype:
            common = promote_types(first.dtype, second.dtype)
            first, second = first.astype(common), second.astype(common)
        return bool((first == second).all())


def _read(op: str, *tensors: Any) -> list[Any]:
    """Returns the arrays of tensors or arrays. They must have values."""
    return [_read_one(op, *pair) for pair in zip(("input", "other"), tensors, strict=True)]


def _read_one(op: str, name: str, value: Any) -> Any:
    if isinstance(value, TensorMetadata):
        tensor: Any = value
        value = tensor.array
    elif isinstance(value, np.ndarray):
        value = to_array(value, None, None)
    if not isinstance(value, jax.Array):
        raise DataTypeError(
            f"{op}(): argument '{name}' must be Tensor, or an array. Got {type(value).__name__}. "
            "Give oplib.tensor(value)."
        )
    known = find_value(value)
    if known is None:
        raise note_read(
            TracingError(
                f"{op}: a traced tensor has no values yet. Got {describe(value)}. Compare item by item with "
                "==, and return that from the traced function."
            )
        )
    return known


def _broadcast(first: Any, second: Any) -> tuple[Any, Any]:
    try:
        shape = jnp.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ArgumentError(
            f"allclose: the shapes do not broadcast. Got {describe(first)} and {describe(second)}. "
            "Give tensors of one shape."
        ) from None
    return jnp.broadcast_to(first, shape), jnp.broadcast_to(second, shape)


class TensorComparison:
    """Mixin with the comparisons of whole tensors."""

    allclose = allclose
    equal = equal
