"""Ops that reduce axes: sum, mean, max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from oplib.errors import ArgumentError, describe
from oplib.tensor import default_int_dtype

from ._dims import find_dims
from ._promotion import is_integral
from ._table import Row


def _sum(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    if dtype is None and is_integral(self.dtype):
        dtype = default_int_dtype()
    return jnp.sum(self, axis=find_dims("sum", self, dim), keepdims=keepdim, dtype=dtype or self.dtype)


def _mean(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    found = dtype or self.dtype
    if is_integral(found):
        raise ArgumentError(
            f"mean: could not infer output dtype. Got {describe(self)}, and a mean is floating or complex. "
            f"Give dtype=oplib.float32, or convert the tensor."
        )
    return jnp.mean(self, axis=find_dims("mean", self, dim), keepdims=keepdim, dtype=found)


ROWS = (
    Row(
        "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        _sum,
        "sum over some axes, or all",
    ),
    Row(
        "mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        _mean,
        "mean over some axes, or all",
    ),
)
