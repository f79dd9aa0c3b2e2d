"""Reduction: sum, mean, max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.errors import ArgumentError, DimensionError, describe
from oplib.tensor import default_int_dtype

from ._dims import find_dim, find_dims
from ._promotion import elementwise, is_integral
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


def _max(self: Any) -> Any:
    if not self.size:
        raise ArgumentError(
            f"max: expected reduction dim to be specified for a tensor without items. Got {describe(self)}. "
            f"Give dim=, or a tensor that has some."
        )
    return jnp.max(self)


def _max_dim(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The gradient goes to the one item that was picked: the first of equal ones."""
    axis = find_dim("max", self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    if not self.shape[axis]:
        raise DimensionError(
            f"max: expected reduction dim {axis} to have non-zero size. Got {describe(self)}. Choose "
            "another dim."
        )
    picked = lax.argmax(self, axis, default_int_dtype())
    values = jnp.take_along_axis(self, lax.expand_dims(picked, (axis,)), axis, mode="promise_in_bounds")
    return (values, lax.expand_dims(picked, (axis,))) if keepdim else (lax.squeeze(values, (axis,)), picked)


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
    Row("max(Tensor self) -> Tensor", _max, "largest item; equal ones share the gradient"),
    Row(
        "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        _max_dim,
        "largest items along a dim, and where they stand",
    ),
    Row(
        "max.other(Tensor self, Tensor other) -> Tensor",
        elementwise("max", lax.max),
        "the larger of two items; equal ones share the gradient",
    ),
)
