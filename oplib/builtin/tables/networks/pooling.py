"""Pooling and interpolation: one item for several positions, and several items for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import NetworkRow, Row
from oplib.builtin.shared_kernels.interpolation import find_ranges, interpolate
from oplib.builtin.shared_kernels.promotion import find_largest, get_items, in_single, is_integral, strong
from oplib.builtin.shared_kernels.windows import Windows, check_input_rank, check_numbers, repeat_for_axes
from oplib.builtin.tables.reductions.sums_and_extrema import find_extremum
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.tensor import default_int_dtype

_MANY_ITEMS = 64
"""Up to so many items of a window are compared one after another, which XLA fuses."""

# Poolings ---------------------------------------------------------------------------------------------------


def max_pool(
    rank: int,
    input: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """Returns values and positions; the gradient goes to the first of equal items."""
    check_input_rank(rank, input)
    sizes = input.shape[-rank:]
    steps: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    windows = Windows(sizes, kernel=kernel_size, **steps, ceil_mode=ceil_mode)
    lowest = strong(jnp.iinfo(input.dtype).min if is_integral(input.dtype) else -jnp.inf, input)
    numbers = _number_items(sizes)
    fixed = lax.stop_gradient(input)
    items, indices = windows.gather(fixed, lowest), windows.gather(numbers, strong(-1, numbers))
    indices = lax.expand_dims(indices, range(1, input.ndim - rank + 1))
    indices = jnp.broadcast_to(indices, items.shape)
    if len(items) > _MANY_ITEMS:
        return _select(rank, input, *_take_first(items, indices, 0))
    best, where = items[0], indices[0]
    for item, index in zip(items[1:], indices[1:], strict=True):
        is_chosen = _is_better(item, best) | (where < 0)
        is_chosen &= index >= 0  # padding is as small as the least item
        best, where = jnp.where(is_chosen, item, best), jnp.where(is_chosen, index, where)
    return _select(rank, input, best, where)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _select(rank: int, input: Any, values: Any, where: Any) -> tuple[Any, Any]:  # noqa: ARG001  of the rule
    """Returns the values of the input at positions in its channels, which are known, and the positions."""
    return values, where


@_select.defjvp
def _push_selected(rank: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Takes the tangents at the positions, whose transpose adds each gradient at one position."""
    return tuple(primals[1:]), (_pick(rank, tangents[0], primals[2]), tangents[2])


def _pick(rank: int, array: Any, where: Any) -> Any:
    """Returns items at positions in their channels."""
    flat = array.reshape(*array.shape[: array.ndim - rank], math.prod(array.shape[-rank:]))
    pick = partial(jnp.take_along_axis, axis=-1, mode="promise_in_bounds")
    places = where.reshape(*flat.shape[:-1], math.prod(where.shape[-rank:]))
    return get_items(pick, flat, places).reshape(where.shape)


def _is_better(item: Any, best: Any) -> Any:
    if is_integral(item.dtype):
        return item > best
    return ((item > best) | jnp.isnan(item)) & ~jnp.isnan(best)


def _number_items(sizes: Sequence[int]) -> Any:
    return lax.iota(default_int_dtype(), math.prod(sizes)).reshape(sizes)


def _take_first(items: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Returns the largest items along an axis and their positions; the first of equal ones."""
    is_there = indices >= 0  # padding is as small as the least item
    best = lax.expand_dims(find_extremum(find_largest, items, axis, jnp.int32, is_there), (axis,))
    first, where = (
        jnp.take_along_axis(array, best, axis, mode="promise_in_bounds") for array in (items, indices)
    )
    return lax.squeeze(first, (axis,)), lax.squeeze(where, (axis,))


def avg_pool(
    rank: int,
    input: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Returns the mean of each window."""
    check_input_rank(rank, input)
    sizes = input.shape[-rank:]
    windows = Windows(sizes, kernel=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode)
    if divisor_override == 0:
        raise ArgumentError("divisor must not be zero", "Leave it out.")
    counts = divisor_override or _count_items(windows, sizes, count_include_pad)
    # means of ints are ints, rounded towards zero
    return in_single(
        lambda wide: lax.div(*jnp.broadcast_arrays(windows.sum(wide), jnp.asarray(counts, wide.dtype)))
    )(input)


def _count_items(windows: Windows, sizes: Sequence[int], count_include_pad: bool) -> np.ndarray[Any, Any]:
    """Returns the number of items of each window; padding counts on request, the rest of ceil_mode never."""
    counts = np.ones((), np.int64)
    for axis, size in enumerate(sizes):
        pad, end = windows.padding[axis], windows.ends[axis]
        starts = np.arange(-pad, size + end - windows.kernel[axis] + 1, windows.stride[axis])
        low, high = (-pad, size + pad) if count_include_pad else (0, size)
        stops = np.minimum(starts + windows.kernel[axis], high)
        counts = counts[..., None] * (stops - np.maximum(starts, low))
    return counts


# Adaptive poolings ------------------------------------------------------------------------------------------


def _find_counts(rank: int, input: Any, output_size: Sequence[int], *, has_channels: bool) -> Any:
    check_input_rank(rank, input, has_channels=has_channels)
    if len(output_size) >= input.ndim:
        raise ArgumentValueError(
            f"expected at most {rank} numbers for 'output_size'", "Give one for each axis of positions."
        )
    counts = repeat_for_axes("output_size", output_size, rank)
    check_numbers(least=0, output_size=counts)
    return counts


def _adaptive_avg_pool(rank: int, input: Any, output_size: Sequence[int]) -> Any:
    result, counts = input, _find_counts(rank, input, output_size, has_channels=rank == 3)
    for axis, count in zip(range(input.ndim - rank, input.ndim), counts, strict=True):
        if count and not result.shape[axis] % count:
            shape = (count, result.shape[axis] // count)
            split = result.reshape(*result.shape[:axis], *shape, *result.shape[axis + 1 :])
            result = in_single(partial(jnp.mean, axis=axis + 1))(split)
            continue
        mean = partial(jnp.mean, axis=axis, keepdims=True)
        parts = [
            in_single(mean)(lax.slice_in_dim(result, start, stop, axis=axis))
            for start, stop in find_ranges(input.shape[axis], count)
        ]
        result = lax.concatenate(parts or [lax.slice_in_dim(result, 0, 0, axis=axis)], axis)
    return result


def _adaptive_max_pool(rank: int, input: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """Returns values and positions; the gradient goes to the first of equal items."""
    counts = _find_counts(rank, input, output_size, has_channels=True)
    sizes = input.shape[-rank:]
    numbers, fixed = _number_items(sizes), lax.stop_gradient(input)
    if all(count and not size % count for size, count in zip(sizes, counts, strict=True)):
        where = _find_even(fixed, numbers, counts)
    else:
        items, indices = (_gather_ranges(array, counts) for array in (fixed, numbers))
        where = _take_first(items, jnp.broadcast_to(indices, items.shape), items.ndim - 1)[1]
    return _pick(rank, input, where), where


def _find_even(array: Any, numbers: Any, counts: Sequence[int]) -> Any:
    """Returns the first position of the largest item of each range, for ranges of one size.

    It reduces one axis at a time: XLA reduces several in a scalar loop on CPUs, five times as slow. Positions
    of nan are negative, so that the first of them wins, also where the maximum of XLA passes over nan.
    """
    lead = array.ndim - len(counts)
    pairs = zip(numbers.shape, counts, strict=True)
    shape = [part for size, count in pairs for part in (count, size // count)]
    items, where = array.reshape(*array.shape[:lead], *shape), numbers.reshape(shape)
    where = jnp.where(jnp.isnan(items), where - numbers.size, where)
    for axis in range(lead + 1, items.ndim, 2):
        best = jnp.max(items, axis, keepdims=True)
        is_best = (items == best) | (where < 0)
        items, where = best, jnp.min(jnp.where(is_best, where, numbers.size), axis, keepdims=True)
    return (where % numbers.size).reshape(*array.shape[:lead], *counts)


def _gather_ranges(array: Any, counts: Sequence[int]) -> Any:
    """Returns the items of each range along a new last axis; a short range repeats its last item."""
    rank, lead = len(counts), array.ndim - len(counts)
    for position, count in enumerate(counts):
        axis = lead + 2 * position
        ranges = find_ranges(array.shape[axis], count)
        length = max((stop - start for start, stop in ranges), default=1)
        rows = [[min(start + offset, stop - 1) for offset in range(length)] for start, stop in ranges]
        index = np.asarray(rows, np.int32).reshape(count, length)
        array = jnp.take(array, index, axis=axis, mode="clip")
    windows = [lead + 2 * position for position in range(rank)]
    within = [axis + 1 for axis in windows]
    moved = lax.transpose(array, (*range(lead), *windows, *within))
    return lax.reshape(moved, (*moved.shape[: lead + rank], math.prod(moved.shape[lead + rank :])))


def _rows(rank: int) -> tuple[Row, ...]:
    many = f"int[{rank}]"
    functional = "torch.nn.functional"
    return (
        Row(
            f"max_pool{rank}d_with_indices(Tensor input, {many} kernel_size, {many} stride=[], {many} "
            f"padding=0, {many} dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
            partial(max_pool, rank),
            "maximum of each window, and its position in its channel",
            source=f"{functional}.max_pool{rank}d_with_indices",
            dtypes="ihf",
            is_internal=True,
        ),
        Row(
            f"avg_pool{rank}d(Tensor input, {many} kernel_size, {many} stride=[], {many} padding=0, "
            "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
            partial(avg_pool, rank),
            "mean of each window",
            source=f"{functional}.avg_pool{rank}d",
            dtypes="ihf",
            autocast="cpu float32" if rank == 3 else "",
        ),
        Row(
            f"adaptive_avg_pool{rank}d(Tensor input, {many} output_size) -> Tensor",
            partial(_adaptive_avg_pool, rank),
            "means of a given number of windows",
            source=f"{functional}.adaptive_avg_pool{rank}d",
            dtypes="hf",
            autocast="cpu float32" if rank == 3 else "",
        ),
        Row(
            f"adaptive_max_pool{rank}d_with_indices(Tensor input, {many} output_size) -> (Tensor, Tensor)",
            partial(_adaptive_max_pool, rank),
            "maxima of a given number of windows, and their positions",
            source=f"{functional}.adaptive_max_pool{rank}d_with_indices",
            dtypes="hf",
            is_internal=True,
            autocast="cpu float32" if rank == 3 else "",
        ),
    )


ROWS = (
    *_rows(1),
    *_rows(2),
    *_rows(3),
    NetworkRow(
        "interpolate(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str mode='nearest', "
        "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
        interpolate,
        "items interpolated to another size",
        dtypes="ihf",
    ),
)
