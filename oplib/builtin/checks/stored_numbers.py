"""Numbers that are stored in a tensor as they are: one that its dtype does not hold would become another."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentOverflowError, describe
from oplib.library.arguments.scalars import is_narrow


def check_fits(op: str, tensor: Any, value: Any) -> None:
    """Raises where a Python number is beyond the dtype of what it is to be stored in.

    As in torch a negative number wraps in a dtype without sign, a float loses its digits in an integer, and
    a bool is true of any number but 0. Of a complex number an imaginary part of 0 may be left out.

    Args:
        op: the op's name, for the error.
        tensor: a Tensor or array; what has no dtype is left to the schema.
        value: what is no number is left alone.

    Raises:
        ArgumentOverflowError: it is beyond it, or complex in a dtype that is not.
    """
    if not isinstance(value, (int, float, complex)) or not hasattr(tensor, "dtype"):
        return
    if isinstance(value, complex):
        _check_parts(op, tensor, value)
        return
    low, high = _find_limits(tensor.dtype)
    if low <= value <= high:
        return
    is_floating = not isinstance(low, int)
    if is_floating and not math.isfinite(value):
        return
    is_wide = isinstance(value, int) and not is_narrow(value)
    cure = ", or turn 64 bits on with jax.config.update('jax_enable_x64', True)" if is_wide else ""
    raise ArgumentOverflowError(
        f"{op}: the value cannot be converted to type {np.dtype(tensor.dtype).name} without overflow. Got "
        f"{value} for {describe(tensor)}, which holds {low} to {high}. Store another one, or convert the "
        f"tensor first: tensor.to(dtype){cure}."
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
    """The lowest and highest number that may be stored in a dtype."""
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return (int(info.min) or -int(info.max)), int(info.max)
    if jnp.issubdtype(dtype, jnp.floating):
        highest = float(jnp.finfo(dtype).max)
        return -highest, highest
    return -math.inf, math.inf
