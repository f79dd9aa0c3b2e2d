"""The array of a Tensor, and the values of a Tensor or array if they are known."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.errors import ArgumentTypeError, TracingError, describe
from oplib.tensor import Tensor, default_int_dtype, read_array


def find_array(value: Any) -> Any:
    """Returns the array of a Tensor, and any other value unchanged."""
    return read_array(value) if isinstance(value, Tensor) else value


def is_traced(value: Any) -> bool:
    """Tells whether the values of a Tensor or array are traced, and so not known yet."""
    return isinstance(find_array(value), Tracer)


def box_like(value: Any, found: Any, dtype: Any = None) -> Any:
    """Returns numbers in the form of ``value``: a Tensor on its device, or an array.

    Args:
        value: a Tensor or an array.
        found: the numbers.
        dtype: the dtype of the result; by default that of default ints.
    """
    kind = np.dtype(default_int_dtype() if dtype is None else dtype)
    if isinstance(value, Tensor):
        return value.new_tensor(np.asarray(found).astype(kind), dtype=kind)
    return jnp.asarray(found, kind)


def make_zeros(like: Any, shape: tuple[int, ...]) -> Any:
    """Returns zeros in the world and the dtype of a tensor or array."""
    return like.new_zeros(shape) if isinstance(like, Tensor) else jnp.zeros(shape, like.dtype)


def read_known(value: Any) -> np.ndarray[Any, Any] | None:
    """Returns the values of a tensor or array; None if they are traced."""
    return None if is_traced(value) else np.asarray(find_array(value))


def read_values(op: str, value: Any) -> np.ndarray[Any, Any]:
    """Returns the values of a tensor or array.

    Args:
        op: the op's name, for errors.
        value: a Tensor or array of any shape and dtype.

    Raises:
        ArgumentTypeError: the value is neither.
        TracingError: the values are traced.
    """
    array = find_array(value)
    if not hasattr(array, "dtype"):
        raise ArgumentTypeError(f"{op}: it takes a Tensor. Got {describe(value)}. Use oplib.tensor(...).")
    if isinstance(array, Tracer):
        raise TracingError(
            f"{op}: it reads the values, which are not known under a trace. Got {describe(array)}. Call it "
            "outside of jit, or use where and a mask of fixed size."
        )
    return np.asarray(array)
