"""Order: sorting, and functions of the sorted items."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import SELECTED, Row, constant
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.picked_gradients import OF_CHOSEN, OF_LARGEST, OF_SORTED
from oplib.builtin.shared_kernels.promotion import is_integral
from oplib.builtin.shared_kernels.shared_gradients import OF_ALL
from oplib.errors import ArgumentError
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .sums_and_extrema import find_along, find_first_position, refuse_empty, take_at

_INDICES = constant("indices are piecewise constant in the items")
_MANY = 1024
"""Of so many items on a CPU one is searched bit by bit; fewer are sorted."""


def make_keys(array: Any) -> Any:
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


def sort_indices(array: Any, axis: int, *, descending: bool, packs: bool) -> Any:
    """Returns the indices that sort the items; the order is stable, and nan is the largest.

    XLA sorts single integers on CPUs in a fifth of the time of pairs: there a key and its index are packed.
    """
    indices = lax.broadcasted_iota(default_int_dtype(), array.shape, axis)
    key = make_keys(lax.stop_gradient(array))
    key = ~key if descending else key
    if packs and fits_pair(key.dtype):
        return run_packed(partial(lax.sort, dimension=axis, is_stable=True), key, indices)
    return lax.sort((key, indices), dimension=axis, num_keys=1, is_stable=True)[1]


def fits_pair(dtype: Any) -> bool:
    """Whether a key and its index fit into 64 bits."""
    return np.iinfo(dtype).max < 1 << 31


def run_packed(function: Any, key: Any, indices: Any) -> Any:
    """Returns the indices after a function of integers, each of which is a key, and then its index."""
    with jax.enable_x64(True):
        wide, place = (lax.convert_element_type(part, dtypes.int64) for part in (key, indices))
        pairs = function(wide * (1 << 32) + place)
        return lax.convert_element_type(pairs & ((1 << 32) - 1), indices.dtype)


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
    indices = sort_indices(self, axis, descending=descending, packs=packs)
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
        keys = make_keys(array) if largest else ~make_keys(array)
        return lax.convert_element_type(keys, dtypes.float32) if keys.dtype.itemsize < 4 else keys
    wide = array if array.dtype.itemsize > 4 else lax.convert_element_type(array, dtypes.float32)
    nan = np.copysign(wide.dtype.type(np.nan), 1 if largest else -1)  # XLA orders them by their sign
    keys = wide if largest else -wide
    return jnp.where(jnp.isnan(wide), nan, jnp.where(wide == 0, 0, keys))


def _kthvalue(self: Any, k: int, dim: int, keepdim: bool, *, bisects: bool = False) -> tuple[Any, Any]:
    axis = find_dim(self.ndim, dim)
    refuse_empty(self, [axis])
    count = self.shape[axis] if self.ndim else 1
    if not 1 <= k <= count:
        raise ArgumentError(
            f"selected number k out of range for dimension {axis}", f"Choose k from 1 to {count}."
        )
    return _find_rank_along(lambda *_: np.int32(k - 1), self, dim, keepdim, bisects=bisects)


# Median and mode --------------------------------------------------------------------------------------------


def find_ranked(array: Any, axis: int, rank: Any, *, bisects: bool) -> Any:
    """Returns the position of the item of a rank along an axis; the rank is a number, or one for each.

    Of equal items it is the one that a stable sort puts there.
    """
    count, dtype = array.shape[axis], default_int_dtype()
    ranks = jnp.broadcast_to(rank, (*array.shape[:axis], 1, *array.shape[axis + 1 :]))
    keys = make_keys(lax.stop_gradient(array))
    limits = np.iinfo(keys.dtype)
    is_many = isinstance(array.size, int) and array.size >= _MANY  # an exported program takes any size
    if not (bisects and is_many) or limits.max > np.iinfo(np.int32).max:
        order = sort_indices(array, axis, descending=False, packs=bisects)
        return lax.squeeze(jnp.take_along_axis(order, ranks, axis, mode="promise_in_bounds"), (axis,))
    keys = lax.convert_element_type(keys, np.int32)
    wanted = _bisect(keys, axis, ranks, np.int32(limits.min), limits.bits)
    is_it = keys == wanted
    place = ranks - jnp.sum(keys < wanted, axis, keepdims=True, dtype=ranks.dtype)

    def find_further() -> Any:
        positions = jnp.where(is_it, lax.broadcasted_iota(np.int32, array.shape, axis), count)
        found = _bisect(positions, axis, place, np.int32(0), count.bit_length())
        return lax.convert_element_type(lax.squeeze(found, (axis,)), dtype)

    return lax.cond(jnp.any(place > 0), find_further, lambda: find_first_position(is_it, axis, dtype))


def _bisect(keys: Any, axis: int, ranks: Any, least: Any, bits: int) -> Any:
    """Returns the keys of ranks bit by bit: the largest number that at most so many keys are below.

    It reads the keys once for each bit, which takes a fifth of the time of XLA's sort on CPUs.
    """

    def step(bit: Any, found: Any) -> Any:
        tried = found + lax.shift_left(np.int32(1), np.int32(bits - 1) - bit)
        count = jnp.sum(keys < tried, axis, keepdims=True, dtype=ranks.dtype)
        return jnp.where(count <= ranks, tried, found)

    # In shard_map the carry must vary over the axes of a mesh as the keys do.
    start = lax.slice_in_dim(keys, 0, 1, axis=axis) * 0 + least
    return lax.fori_loop(np.int32(0), np.int32(bits), step, start)


def _rank_median(array: Any, axis: int, *, skips_nan: bool) -> Any:
    """Returns the rank of the lower median; that of a nan, which is sorted last, if there is one to count."""
    last = array.shape[axis] - 1
    if is_integral(array.dtype):
        return np.int32(last // 2)
    count = jnp.sum(~jnp.isnan(array), axis, keepdims=True, dtype=dtypes.int32)  # the rank of the first nan
    middle = jnp.maximum(count - 1, 0) // 2
    return middle if skips_nan else jnp.where(count > np.int32(last), middle, count)


def _median(rank: Any, self: Any, *, bisects: bool = False) -> Any:
    if not self.size:
        return jnp.full((), jnp.nan, self.dtype)
    flat = jnp.ravel(self)
    return flat[find_ranked(flat, 0, rank(flat, 0), bisects=bisects)]


def _find_rank_along(
    rank: Any, self: Any, dim: int, keepdim: bool, *, bisects: bool = False
) -> tuple[Any, Any]:
    def find(array: Any, axis: int, _: Any) -> Any:
        return find_ranked(array, axis, rank(array, axis), bisects=bisects)

    return find_along(find, self, dim, keepdim)


def _find_mode(array: Any, axis: int, dtype: Any) -> Any:
    """Returns the last position of the smallest of the most frequent items."""
    items = jnp.moveaxis(lax.stop_gradient(array), axis, -1)
    ordered, last_axis = jnp.sort(items, axis=-1), items.ndim - 1
    positions = lax.broadcasted_iota(dtype, items.shape, last_axis)
    is_new = jnp.concatenate(
        [jnp.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], last_axis
    )
    starts = lax.cummax(jnp.where(is_new, positions, 0), last_axis)
    modes = take_at(ordered, lax.argmax(positions - starts, last_axis, dtypes.int32), last_axis)
    indices = jnp.max(jnp.where(items == modes, positions, -1), last_axis)
    return jnp.where(indices < 0, array.shape[axis] - 1, indices)  # nan equals nothing


def _write_medians(prefix: str, of_all: str, along: str) -> tuple[Row, Row]:
    """Makes the rows of a median of all items, and along a dim."""
    op, rank = f"{prefix}median", partial(_rank_median, skips_nan=bool(prefix))
    kernels = partial(_median, rank), partial(_find_rank_along, rank)
    return (
        Row(
            f"{op}(Tensor self) -> Tensor",
            kernels[0],
            f"{of_all}; equal items share the gradient",
            derivative=OF_ALL,
            dtypes="ihf",
            out=True,
            kernels=(("cpu", partial(kernels[0], bisects=True)),),
        ),
        Row(
            f"{op}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
            kernels[1],
            f"{along}, and their indices",
            derivative=OF_CHOSEN,
            dtypes="ihf",
            kernels=(("cpu", partial(kernels[1], bisects=True)),),
        ),
    )


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
        kernels=(("cpu", partial(_kthvalue, bisects=True)),),
    ),
    *_write_medians("", "median, the lower of two", "medians along a dim"),
    *_write_medians("nan", "median of all items except nan", "medians along a dim of all items except nan"),
    Row(
        "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
        partial(find_along, _find_mode),
        "most frequent items along a dim, the smallest of several, and their last indices",
        derivative=OF_CHOSEN,
        dtypes="bihf",
        exact_out=True,
    ),
)
