"""Order: sorting, and functions of the sorted items."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.kernels.picked_gradients import OF_CHOSEN, OF_LARGEST, OF_SORTED
from oplib.builtin.kernels.promotion import is_integral
from oplib.builtin.kernels.shared_gradients import OF_ALL
from oplib.builtin.rows.row import SELECTED, Row, constant
from oplib.errors import ArgumentError, DimensionError
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .basic import find_first_position, refuse_empty, take_at

_INDICES = constant("indices are piecewise constant in the items")


def _make_keys(array: Any) -> Any:
    """Returns integers in the order of the items: zeros of both signs are equal, and nan is the largest.

    XLA sorts them on CPUs in a fifth of the time of floats.
    """
    if array.dtype == dtypes.bool:
        return lax.convert_element_type(array, dtypes.uint8)
    if is_integral(array.dtype):
        return array
    bits = lax.bitcast_convert_type(array, f"int{8 * array.dtype.itemsize}")
    largest = np.iinfo(bits.dtype).max
    keys = jnp.where(bits < 0, bits ^ largest, bits)
    is_zero = keys == -1  # -0.0; a comparison of the floats also says it of subnormal numbers
    return jnp.where(jnp.isnan(array), largest, jnp.where(is_zero, 0, keys))


def _sort_indices(array: Any, axis: int, *, descending: bool, packs: bool) -> Any:
    """Returns the indices that sort the items; the order is stable, and nan is the largest.

    XLA sorts single integers on CPUs in a fifth of the time of pairs: there a key and its index are packed.
    """
    indices = lax.broadcasted_iota(default_int_dtype(), array.shape, axis)
    key = _make_keys(lax.stop_gradient(array))
    key = ~key if descending else key
    if not packs or np.iinfo(key.dtype).max >= 1 << 31:
        return lax.sort((key, indices), dimension=axis, num_keys=1, is_stable=True)[1]
    with jax.enable_x64(True):
        wide, place = (lax.convert_element_type(part, dtypes.int64) for part in (key, indices))
        pair = wide * (1 << 32) + place
        ordered = lax.sort(pair, dimension=axis, is_stable=True)
        return lax.convert_element_type(ordered & ((1 << 32) - 1), indices.dtype)


def _sort(
    self: Any,
    *,
    stable: bool | None = None,  # noqa: ARG001  always stable
    dim: int = -1,
    descending: bool = False,
    packs: bool = False,
) -> tuple[Any, Any]:
    axis = find_dim(self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = _sort_indices(self, axis, descending=descending, packs=packs)
    return jnp.take_along_axis(self, indices, axis, mode="promise_in_bounds"), indices


def _argsort(self: Any, dim: int, descending: bool, *, stable: bool = False, packs: bool = False) -> Any:
    return _sort(self, stable=stable, dim=dim, descending=descending, packs=packs)[1]


def _msort(self: Any, *, packs: bool = False) -> Any:
    return _sort(self, dim=0, packs=packs)[0]


def _topk(self: Any, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Any, Any]:  # noqa: ARG001  torch's name, and always sorted
    axis = find_dim(self.ndim, dim)
    count = self.shape[axis] if self.ndim else 1
    if not 0 <= k <= count:
        raise ArgumentError("selected index k out of range", f"Choose k from 0 to {count}.")
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())  # also for k=0, as in torch
    keys = jnp.moveaxis(_make_top_keys(lax.stop_gradient(self), largest=largest), axis, -1)
    found = lax.convert_element_type(lax.top_k(keys, k)[1], default_int_dtype())
    indices = jnp.moveaxis(found, -1, axis)
    return jnp.take_along_axis(self, indices, axis, mode="promise_in_bounds"), indices


def _make_top_keys(array: Any, *, largest: bool) -> Any:
    """Returns keys whose largest are the wanted items, of equal items the first; nan is the largest item.

    Floats of 32 bits if they hold the items: XLA sorts all others on CPUs.
    """
    if is_integral(array.dtype):
        keys = _make_keys(array) if largest else ~_make_keys(array)
        return lax.convert_element_type(keys, dtypes.float32) if keys.dtype.itemsize < 4 else keys
    wide = array if array.dtype.itemsize > 4 else lax.convert_element_type(array, dtypes.float32)
    nan = np.copysign(wide.dtype.type(np.nan), 1 if largest else -1)  # XLA orders them by their sign
    keys = wide if largest else -wide
    return jnp.where(jnp.isnan(wide), nan, jnp.where(wide == 0, 0, keys))


def _finish(values: Any, indices: Any, axis: int, *, keepdim: bool) -> tuple[Any, Any]:
    """Removes the axis, which values still have and positions have not."""
    return (values, lax.expand_dims(indices, (axis,))) if keepdim else (lax.squeeze(values, (axis,)), indices)


def _kthvalue(self: Any, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    axis = find_dim(self.ndim, dim)
    refuse_empty(self, [axis])
    count = self.shape[axis] if self.ndim else 1
    if not 1 <= k <= count:
        raise ArgumentError(
            f"selected number k out of range for dimension {axis}", f"Choose k from 1 to {count}."
        )
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = _find_ranked(self, axis, np.int32(k - 1))
    return _finish(take_at(self, indices, axis), indices, axis, keepdim=keepdim)


# Median and mode --------------------------------------------------------------------------------------------


def _find_ranked(array: Any, axis: int, rank: Any) -> Any:
    """Returns the position of the item of a rank along an axis; the rank is a number, or one for each.

    Of equal items it is the one that a stable sort puts there. The keys are sorted without their positions,
    which takes a fifth of the time.
    """
    keys = _make_keys(lax.stop_gradient(array))
    ordered = lax.sort(keys, dimension=axis, is_stable=True)  # takes two thirds of the time
    ranks = jnp.broadcast_to(rank, (*array.shape[:axis], 1, *array.shape[axis + 1 :]))
    wanted = jnp.take_along_axis(ordered, ranks, axis, mode="promise_in_bounds")
    is_it = keys == wanted
    place = ranks - jnp.sum(keys < wanted, axis, keepdims=True, dtype=ranks.dtype)
    counts = lax.cumsum(is_it.astype(ranks.dtype), axis)
    return find_first_position(is_it & (counts == place + 1), axis, default_int_dtype())


def _median_index(array: Any, axis: int) -> Any:
    """Returns the position of the lower median; that of a nan if there is one."""
    last = array.shape[axis] - 1
    if is_integral(array.dtype):
        return _find_ranked(array, axis, np.int32(last // 2))
    count = jnp.sum(~jnp.isnan(array), axis, keepdims=True, dtype=dtypes.int32)  # the rank of the first nan
    return _find_ranked(array, axis, jnp.where(count > np.int32(last), np.int32(last // 2), count))


def _nanmedian_index(array: Any, axis: int) -> Any:
    """Returns the position of the lower median of the numbers, which are sorted before nan."""
    if is_integral(array.dtype):
        return _median_index(array, axis)
    count = jnp.sum(~jnp.isnan(array), axis, keepdims=True, dtype=dtypes.int32)
    return _find_ranked(array, axis, jnp.maximum(count - 1, 0) // 2)


def _median(self: Any, find: Any = _median_index) -> Any:
    if not self.size:
        return jnp.full((), jnp.nan, self.dtype)
    flat = lax.reshape(self, (self.size,))
    return flat[find(flat, 0)]


def _nanmedian(self: Any) -> Any:
    return _median(self, _nanmedian_index)


def _find_median_along(find: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    axis = find_dim(self.ndim, dim)
    refuse_empty(self, [axis])
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    indices = find(self, axis)
    return _finish(take_at(self, indices, axis), indices, axis, keepdim=keepdim)


def _mode(self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Returns the smallest of the most frequent items, at its last position."""
    axis = find_dim(self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    if not self.shape[axis]:
        raise DimensionError(f"expected reduction dim {axis} to have non-zero size", "Choose another dim.")
    items = jnp.moveaxis(lax.stop_gradient(self), axis, -1)
    ordered, last_axis = jnp.sort(items, axis=-1), items.ndim - 1
    positions = lax.broadcasted_iota(default_int_dtype(), items.shape, last_axis)
    is_new = jnp.concatenate(
        [jnp.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], last_axis
    )
    starts = lax.cummax(jnp.where(is_new, positions, 0), last_axis)
    modes = take_at(ordered, lax.argmax(positions - starts, last_axis, dtypes.int32), last_axis)
    indices = jnp.max(jnp.where(items == modes, positions, -1), last_axis)
    indices = jnp.where(indices < 0, self.shape[axis] - 1, indices)  # nan equals nothing
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
        kernels=(("cpu", partial(_sort, packs=True)),),
    ),
    Row(
        "argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor",
        _argsort,
        "indices that sort the items along a dim",
        derivative=_INDICES,
        dtypes="bihf",
        result="shape",
        kernels=(("cpu", partial(_argsort, packs=True)),),
    ),
    Row(
        "msort(Tensor self) -> Tensor",
        _msort,
        "items sorted along the first dim",
        derivative=SELECTED,
        dtypes="bihf",
        result="shape",
        out=True,
        kernels=(("cpu", partial(_msort, packs=True)),),
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
        partial(_find_median_along, _median_index),
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
        partial(_find_median_along, _nanmedian_index),
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
