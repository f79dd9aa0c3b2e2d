"""Checks of numbers that are stored in a tensor: one that the dtype cannot hold would change."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentOverflowError, describe
from oplib.library.arguments.scalars import is_narrow
from oplib.tensor.dtypes.promotion import result_type

LEAST = 8
"""Every dtype holds the numbers that are nearer to 0: for these the dtype of a view need not be read."""


def check_fits(op: str, tensor: Any, value: Any) -> None:
    """Raises if a Python number is outside the range of the tensor's dtype.

    As in torch, a negative number wraps in an unsigned dtype, a float loses its fraction in an integer, and a
    bool is true for any number except 0. An imaginary part of 0 may be dropped.

    Args:
        op: the op's name, for the error.
        tensor: a Tensor or array; the schema checks values without a dtype.
        value: the value; one that is no number is not checked.

    Raises:
        ArgumentOverflowError: the number is outside the range, or complex for a real dtype.
    """
    if not isinstance(value, (int, float, complex)) or (abs(value) < LEAST and not value.imag):
        return
    dtype = getattr(tensor, "dtype", None)
    if dtype is None:
        return
    if isinstance(value, complex):
        _check_parts(op, tensor, value)
        return
    low, high = _find_limits(dtype)
    if low <= value <= high:
        return
    is_floating = not isinstance(low, int)
    if is_floating and not math.isfinite(value):
        return
    is_wide = isinstance(value, int) and not is_narrow(value)
    cure = ", or turn 64 bits on with jax.config.update('jax_enable_x64', True)" if is_wide else ""
    raise ArgumentOverflowError(
        f"{op}: the value cannot be converted to type {np.dtype(dtype).name} without overflow. Got "
        f"{value} for {describe(tensor)}, which holds {low} to {high}. Store another one, or convert the "
        f"tensor first: tensor.to(dtype){cure}."
    )


def check_numbers_fit(op: str, tensor: Any, *values: Any) -> None:
    """Raises as :func:`check_fits` for numbers beside a tensor, if none of them widens the result."""
    is_floating = jnp.issubdtype(getattr(tensor, "dtype", bool), jnp.floating)
    if is_floating or not any(isinstance(value, float) for value in values):
        for value in values:
            if isinstance(value, (int, float)):
                check_fits(op, tensor, value)


def check_factor(op: str, alpha: Any, *operands: Any) -> None:
    """Raises if a factor is of a wider kind than the result has without it."""
    if result_type(*operands, alpha) != result_type(*operands):
        raise ArgumentError(
            f"{op}: argument 'alpha' must not be of a wider kind than the operands. Got {describe(alpha)} "
            f"for {' and '.join(map(describe, operands))}. Convert one of them: tensor.to(dtype)."
        )


def _check_parts(op: str, tensor: Any, value: complex) -> None:
    holds_any = tensor.dtype == jnp.bool_ or jnp.issubdtype(tensor.dtype, jnp.complexfloating)
    if value.imag and not holds_any:
        raise ArgumentOverflowError(
            f"{op}: the value cannot be converted to type {np.dtype(tensor.dtype).name} without overflow. "
            f"Got {value} for {describe(tensor)}, which holds no imaginary part. Store its real part, or "
            "convert the tensor first: tensor.to(dtype)."
        )


@functools.cache
def _find_limits(dtype: Any) -> tuple[Any, Any]:
    """Returns the lowest and highest number that a dtype can store."""
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return (int(info.min) or -int(info.max)), int(info.max)
    if jnp.issubdtype(dtype, jnp.floating):
        highest = float(jnp.finfo(dtype).max)
        return -highest, highest
    return -math.inf, math.inf
