"""Broadcasting whose gradient is as exact as a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.tensor.dtypes.rules import HALF


def broadcast_in_dim(array: Any, shape: Sequence[Any], dims: Sequence[int]) -> Any:
    """Does what ``lax.broadcast_in_dim`` does, and adds the gradient of halves in single.

    XLA for CPUs adds halves one by one: of 5,000 gradients of 2e-4 half are lost. It drops the conversions in
    the forward.
    """
    wide = lax.convert_element_type(array, jnp.float32) if array.dtype in HALF else array
    return lax.convert_element_type(lax.broadcast_in_dim(wide, shape, dims), array.dtype)
