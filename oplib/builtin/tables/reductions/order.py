"""Order: sorting, and functions of the sorted items."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.kernels.picked_gradients import OF_CHOSEN, OF_LARGEST, OF_SORTED
from oplib.builtin.kernels.promotion import is_integral, strong
from oplib.builtin.kernels.shared_gradients import OF_ALL
from oplib.builtin.rows.row import SELECTED, Row, constant
from oplib.errors import ArgumentError, DimensionError, describe
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .basic import refuse_empty, take_at

_INDICES = constant("indices are piecewise constant in the items")


def _sort_indices(array: Any, axis: int, *, descending: bool) -> Any:
    """Returns the indices that sort the items; the order is stable, and nan is the largest."""
    indices = lax.broadcasted_iota(default_int_dtype(), array.shape, axis)
    key = lax.stop_gradient(array)
    if key.dtype == dtypes.bool:
        key = lax.convert_element_type(key, dtypes.uint8)
    if not descending:
        return lax.sort((key, indices), dimension=axis, num_keys=1, is_stable=True)[1]
    flipped = lax.rev(key, (axis,)), lax.rev(indices, (axis,))
    return lax.rev(lax.sort(flipped, dimension=axis, num_keys=1, is_stable=True)[1], (axis,))


def _sort(
    self: Any,
    *,
    stable: bool | None = None,  # noqa: ARG001  always stable
    dim: int = -1,
    descending: bool = False,
) -> tuple[Any, Any]:
    axis = find_dim("sort", self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = _sort_indices(self, axis, descending=descending)
    return jnp.take_along_axis(self, indices, axis, mode="promise_in_bounds"), indices


def _argsort(self: Any, dim: int, descending: bool, *, stable: bool = False) -> Any:
    return _sort(self, stable=stable, dim=dim, descending=descending)[1]


def _msort(self: Any) -> Any:
    return _sort(self, dim=0)[0]


def _topk(self: Any, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Any, Any]:  # noqa: ARG001  torch's name, and always sorted
    axis = find_dim("topk", self.ndim, dim)
    count = self.shape[axis] if self.ndim else 1
    if not 0 <= k <= count:
        raise ArgumentError(
            f"topk: selected index k out of range. Got k={k} for {describe(self)} along dim {axis}. Choose k "
            f"from 0 to {count}."
        )
    values, indices = _sort(self, dim=dim, descending=largest)
    if not self.ndim:
        return values, indices  # also for k=0, as in torch
    return lax.slice_in_dim(values, 0, k, axis=axis), lax.slice_in_dim(indices, 0, k, axis=axis)


def _finish(values: Any, indices: Any, axis: int, *, keepdim: bool) -> tuple[Any, Any]:
    """Removes the axis, which values still have and positions have not."""
    return (values, lax.expand_dims(indices, (axis,))) if keepdim else (lax.squeeze(values, (axis,)), indices)


def _kthvalue(self: Any, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    axis = find_dim("kthvalue", self.ndim, dim)
    refuse_empty(self, [axis])
    count = self.shape[axis] if self.ndim else 1
    if not 1 <= k <= count:
        raise ArgumentError(
            f"selected number k out of range for dimension {axis}", f"Choose k from 1 to {count}."
        )
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = lax.index_in_dim(_sort_indices(self, axis, descending=False), k - 1, axis, keepdims=False)
    return _finish(take_at(self, indices, axis), indices, axis, keepdim=keepdim)


# Median and mode --------------------------------------------------------------------------------------------


def _median_index(array: Any, axis: int) -> Any:
    """Returns the position of the lower median; that of a nan if there is one."""
    order = _sort_indices(array, axis, descending=False)
    middle = lax.index_in_dim(order, (array.shape[axis] - 1) // 2, axis, keepdims=False)
    if is_integral(array.dtype):
        return middle
    is_nan = jnp.isnan(array)
    return jnp.where(jnp.any(is_nan, axis), lax.argmax(is_nan, axis, default_int_dtype()), middle)


def _nanmedian_index(array: Any, axis: int) -> Any:
    """Returns the position of the lower median of the numbers, which are sorted before nan."""
    if is_integral(array.dtype):
        return _median_index(array, axis)
    order = _sort_indices(array, axis, descending=False)
    count = jnp.sum(~jnp.isnan(array), axis, keepdims=True, dtype=order.dtype)
    middle = lax.max(count - strong(1, count), strong(0, count)) // strong(2, count)
    return lax.squeeze(jnp.take_along_axis(order, middle, axis, mode="promise_in_bounds"), (axis,))


def _median(self: Any, find: Any = _median_index) -> Any:
    if not self.size:
        return jnp.full((), jnp.nan, self.dtype)
    flat = lax.reshape(self, (self.size,))
    return flat[find(flat, 0)]


def _nanmedian(self: Any) -> Any:
    return _median(self, _nanmedian_index)


def _find_median_along(op: str, find: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    axis = find_dim(op, self.ndim, dim)
    refuse_empty(self, [axis])
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = find(self, axis)
    return _finish(take_at(self, indices, axis), indices, axis, keepdim=keepdim)


def _mode(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Returns the smallest of the most frequent items, at its last position."""
    axis = find_dim("mode", self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    if not self.shape[axis]:
        raise DimensionError(f"expected reduction dim {axis} to have non-zero size", "Choose another dim.")
    items = jnp.moveaxis(lax.stop_gradient(self), axis, -1)
    ordered = jnp.sort(items, axis=-1)
    counts = jnp.sum(ordered[..., :, None] == ordered[..., None, :], axis=-1, dtype=dtypes.int32)
    modes = take_at(ordered, lax.argmax(counts, counts.ndim - 1, dtypes.int32), ordered.ndim - 1)
    is_it = lax.rev(items == modes, (items.ndim - 1,))
    last = lax.argmax(is_it, items.ndim - 1, default_int_dtype())
    indices = strong(self.shape[axis] - 1, last) - last
    return _finish(take_at(self, indices, axis), indices, axis, keepdim=keepdim)


ROWS = (
    Row(
        "sort(Tensor self, *, bool? stable=None, int dim=-1, bool descending=False)"
        " -> (Tensor values, Tensor indices)",
        _sort,
        "items sorted along a dim, and their indices; the order is always stable",
        derivative=OF_SORTED,
        dtypes="bihf",
        exact_out=True,
    ),
    Row(
        "argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor",
        _argsort,
        "indices that sort the items along a dim",
        derivative=_INDICES,
        dtypes="bihf",
        result="shape",
    ),
    Row(
        "msort(Tensor self) -> Tensor",
        _msort,
        "items sorted along the first dim",
        derivative=SELECTED,
        dtypes="bihf",
        result="shape",
        out=True,
    ),
    Row(
        "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True)"
        " -> (Tensor values, Tensor indices)",
        _topk,
        "the k largest or smallest items along a dim, sorted, and their indices",
        derivative=OF_LARGEST,
        dtypes="ihf",
        exact_out=True,
    ),
    Row(
        "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        _kthvalue,
        "the k-th smallest items along a dim, and their indices",
        derivative=OF_CHOSEN,
        dtypes="ihf",
        exact_out=True,
    ),
    Row(
        "median(Tensor self) -> Tensor",
        _median,
        "median, the lower of two; equal items share the gradient",
        derivative=OF_ALL,
        dtypes="ihf",
        out=True,
    ),
    Row(
        "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        partial(_find_median_along, "median", _median_index),
        "medians along a dim, and their indices",
        derivative=OF_CHOSEN,
        dtypes="ihf",
    ),
    Row(
        "nanmedian(Tensor self) -> Tensor",
        _nanmedian,
        "median of all items except nan; equal items share the gradient",
        derivative=OF_ALL,
        dtypes="ihf",
        out=True,
    ),
    Row(
        "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        partial(_find_median_along, "nanmedian", _nanmedian_index),
        "medians along a dim of all items except nan, and their indices",
        derivative=OF_CHOSEN,
        dtypes="ihf",
    ),
    Row(
        "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        _mode,
        "most frequent items along a dim, the smallest of several, and their last indices",
        derivative=OF_CHOSEN,
        dtypes="bihf",
        exact_out=True,
    ),
)
