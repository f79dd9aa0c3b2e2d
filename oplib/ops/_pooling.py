# ruff: noqa: A002, PLR0917  the parameters are torch's
"""Pooling and interpolation: one number for several places, and the other way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.errors import ArgumentError, describe
from oplib.tensor import default_int_dtype

from ._convolution import spread
from ._promotion import in_single, is_integral, strong
from ._table import Row

# Windows ----------------------------------------------------------------------------------------------------


def _check_rank(op: str, rank: int, array: Any) -> None:
    if array.ndim not in (rank + 1, rank + 2):
        raise ArgumentError(
            f"{op}: expected {rank + 1}D or {rank + 2}D input: batch, channels, places. Got "
            f"{describe(array)}. Reshape it."
        )


class Windows:
    """Where the windows of a pooling stand, along each axis.

    Args:
        op: the op's name, for errors.
        sizes: of the axes that are pooled.
        kernel: sizes of a window.
        stride: steps from one window to the next; empty for those of the window.
        padding: places that are added on both sides.
        dilation: steps from one place of a window to the next.
        ceil_mode: whether a last window may stand out.
    """

    def __init__(
        self,
        op: str,
        sizes: Sequence[int],
        *,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> None:
        rank = len(sizes)
        self.kernel = spread(op, "kernel_size", kernel, rank)
        self.stride = spread(op, "stride", stride, rank) if len(stride) else self.kernel
        self.padding = spread(op, "padding", padding, rank)
        self.dilation = spread(op, "dilation", dilation, rank)
        for size, pad in zip(self.kernel, self.padding, strict=True):
            if pad > size // 2:
                raise ArgumentError(
                    f"{op}: pad should be at most half of effective kernel size. Got padding={list(padding)} "
                    f"and kernel_size={list(kernel)}. Pad less."
                )
        self.ends = [self._end(axis, size, ceil_mode) for axis, size in enumerate(sizes)]

    def _end(self, axis: int, size: int, ceil_mode: bool) -> int:
        """Places added at the end, by which the last window is complete."""
        pad, step = self.padding[axis], self.stride[axis]
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        room = size + 2 * pad - reach
        count = (-(-room // step) if ceil_mode else room // step) + 1
        if ceil_mode and (count - 1) * step >= size + pad:
            count -= 1  # a window that would begin in the padding
        return max((count - 1) * step + reach - size - pad, 0) if ceil_mode else pad

    def sum(self, array: Any) -> Any:
        """Sums the items of each window; those beyond the edge count as 0."""
        lead = array.ndim - len(self.kernel)
        ones = (1,) * lead
        pads = [(0, 0)] * lead + list(zip(self.padding, self.ends, strict=True))
        nothing = np.zeros((), array.dtype)  # a concrete 0, by which JAX sees that it is a sum
        window, steps = (*ones, *self.kernel), (*ones, *self.stride)
        return lax.reduce_window(array, nothing, lax.add, window, steps, pads)

    def gather(self, array: Any, fill: Any) -> Any:
        """All items of each window, along a new first axis."""
        lead = array.ndim - len(self.kernel)
        pads = [(0, 0, 0)] * lead + [(a, b, 0) for a, b in zip(self.padding, self.ends, strict=True)]
        padded = lax.pad(array, fill, pads)
        offsets = itertools.product(*(range(size) for size in self.kernel))
        return jnp.stack([self._shift(padded, offset, lead) for offset in offsets])

    def _shift(self, padded: Any, offset: Sequence[int], lead: int) -> Any:
        starts = [place * hole for place, hole in zip(offset, self.dilation, strict=True)]
        reaches = [hole * (size - 1) for size, hole in zip(self.kernel, self.dilation, strict=True)]
        sizes = padded.shape[lead:]
        stops = [start + size - reach for start, size, reach in zip(starts, sizes, reaches, strict=True)]
        return lax.slice(
            padded,
            (*(0,) * lead, *starts),
            (*padded.shape[:lead], *stops),
            (*(1,) * lead, *self.stride),
        )


# Poolings ---------------------------------------------------------------------------------------------------


def _max_pool(rank: int) -> Any:
    op = f"max_pool{rank}d"

    def kernel(
        input: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Any, Any]:
        """The gradient goes to the first of the largest items, and so to the place that is given."""
        _check_rank(op, rank, input)
        sizes = input.shape[-rank:]
        windows = Windows(
            op,
            sizes,
            kernel=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
        )
        lowest = jnp.iinfo(input.dtype).min if is_integral(input.dtype) else -jnp.inf
        items = windows.gather(input, strong(lowest, input))
        flat = lax.broadcast_in_dim(
            lax.iota(default_int_dtype(), math.prod(sizes)).reshape(sizes),
            input.shape,
            tuple(range(input.ndim - rank, input.ndim)),
        )
        places = windows.gather(flat, strong(-1, flat))
        is_there = places >= strong(0, places)
        key = jnp.where(is_there, lax.stop_gradient(items), strong(lowest, items))
        best = lax.expand_dims(lax.argmax(jnp.where(is_there, key, strong(lowest, key)), 0, jnp.int32), (0,))
        first = [jnp.take_along_axis(one, best, 0, mode="promise_in_bounds") for one in (items, places)]
        return lax.squeeze(first[0], (0,)), lax.squeeze(first[1], (0,))

    return kernel


def _avg_pool(rank: int) -> Any:
    op = f"avg_pool{rank}d"

    def kernel(
        input: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        _check_rank(op, rank, input)
        sizes = input.shape[-rank:]
        windows = Windows(op, sizes, kernel=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode)
        total = in_single(windows.sum)(input)
        if divisor_override is not None:
            return total / strong(divisor_override, total)
        counts = jnp.asarray(_count_items(windows, sizes, count_include_pad), total.dtype)
        return total / jnp.broadcast_to(counts, total.shape)

    return kernel


def _count_items(windows: Windows, sizes: Sequence[int], count_include_pad: bool) -> np.ndarray[Any, Any]:
    """How many items each window has; padding counts if told so, but not what ceil_mode adds."""
    counts = np.ones((), np.int64)
    for axis, size in enumerate(sizes):
        pad, end = windows.padding[axis], windows.ends[axis]
        starts = np.arange(-pad, size + end - windows.kernel[axis] + 1, windows.stride[axis])
        low, high = (-pad, size + pad) if count_include_pad else (0, size)
        stops = np.minimum(starts + windows.kernel[axis], high)
        counts = counts[..., None] * (stops - np.maximum(starts, low))
    return counts


def _adaptive(size: int, count: int) -> list[tuple[int, int]]:
    """The ranges of places that are pooled into each of ``count`` places."""
    return [(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]


def _adaptive_pool(rank: int, name: str, reduce: Any) -> Any:
    op = f"adaptive_{name}_pool{rank}d"

    def kernel(input: Any, output_size: Sequence[int]) -> Any:
        _check_rank(op, rank, input)
        found = input
        wanted = spread(op, "output_size", output_size, rank)
        for axis, count in zip(range(input.ndim - rank, input.ndim), wanted, strict=True):
            ranges = _adaptive(input.shape[axis], count)
            parts = [
                reduce(lax.slice_in_dim(found, start, stop, axis=axis), axis=axis, keepdims=True)
                for start, stop in ranges
            ]
            found = lax.concatenate(parts, axis)
        return found

    return kernel


# Interpolation ----------------------------------------------------------------------------------------------


def _find_sources(count: int, size: int, align_corners: bool, scale: float | None) -> np.ndarray[Any, Any]:
    """Where along an axis of ``size`` places the items of ``count`` are taken from."""
    places = np.arange(count)
    if align_corners:
        return places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    step = size / count if scale is None else 1 / scale
    return (places + 0.5) * step - 0.5


def _find_weights(
    mode: str, count: int, size: int, *, align_corners: bool, scale: float | None
) -> np.ndarray[Any, Any]:
    """The matrix that interpolates along one axis, ``[count, size]``."""
    weights = np.zeros((count, size))
    rows = np.arange(count)
    step = size / count if scale is None else 1 / scale
    if mode == "nearest":
        weights[rows, np.minimum(np.floor(rows * step).astype(int), size - 1)] = 1
        return weights
    if mode == "nearest-exact":
        weights[rows, np.minimum(np.floor((rows + 0.5) * step).astype(int), size - 1)] = 1
        return weights
    if mode == "area":
        for row, (start, stop) in enumerate(_adaptive(size, count)):
            weights[row, start:stop] = 1 / (stop - start)
        return weights
    sources = _find_sources(count, size, align_corners, scale)
    if mode != "bicubic":
        sources = np.maximum(sources, 0)
    low = np.floor(sources).astype(int)
    away = sources - low
    taps = _cubic(away) if mode == "bicubic" else {0: 1 - away, 1: away}
    for offset, weight in taps.items():
        np.add.at(weights, (rows, np.clip(low + offset, 0, size - 1)), weight)
    return weights


def _cubic(t: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
    """Keys' kernel with a = -0.75, at the four places around."""
    a = -0.75
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731  a formula
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a  # noqa: E731
    return {-1: far(t + 1), 0: near(t), 1: near(1 - t), 2: far(2 - t)}


_MODES = {
    "nearest": 0,
    "nearest-exact": 0,
    "area": 0,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}


def _interpolate(
    input: Any,
    size: Sequence[int] | None = None,
    scale_factor: Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:
    rank = input.ndim - 2
    if mode not in _MODES or (_MODES[mode] or rank) != rank or not 1 <= rank <= 3:
        raise ArgumentError(
            f"interpolate: the mode does not fit the input. Got mode={mode!r} and {describe(input)}. "
            "'linear' takes 3D input, 'bilinear' and 'bicubic' 4D, 'trilinear' 5D, the others all of these."
        )
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            f"interpolate: only one of size or scale_factor should be defined. Got size={size} and "
            f"scale_factor={scale_factor}. Give just one."
        )
    if align_corners is not None and not _MODES[mode]:
        raise ArgumentError(
            f"interpolate: align_corners goes with linear and cubic modes only. Got mode={mode!r}. Leave "
            "it out."
        )
    scales: list[float | None] = [None] * rank
    if scale_factor is not None:
        given = list(scale_factor) * (rank if len(scale_factor) == 1 else 1)
        wanted = [math.floor(one * factor) for one, factor in zip(input.shape[2:], given, strict=True)]
        scales = scales if recompute_scale_factor or mode == "area" else list(given)
    else:
        wanted = list(spread("interpolate", "size", size or (), rank))

    def compute(x: Any) -> Any:
        for axis, (count, scale) in enumerate(zip(wanted, scales, strict=True), start=2):
            matrix = _find_weights(mode, count, x.shape[axis], align_corners=bool(align_corners), scale=scale)
            x = jnp.moveaxis(jnp.tensordot(x, jnp.asarray(matrix, x.dtype), axes=(axis, 1)), -1, axis)
        return x

    return in_single(compute)(input)


def _rows(rank: int) -> tuple[Row, ...]:
    many = f"int[{rank}]"
    functional = "torch.nn.functional"
    return (
        Row(
            f"max_pool{rank}d_with_indices(Tensor input, {many} kernel_size, {many} stride=[], {many} "
            f"padding=0, {many} dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
            _max_pool(rank),
            "largest item of each window, and where it stands among the places of its channel",
            source=f"{functional}.max_pool{rank}d_with_indices",
        ),
        Row(
            f"avg_pool{rank}d(Tensor input, {many} kernel_size, {many} stride=[], {many} padding=0, "
            "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
            _avg_pool(rank),
            "mean of each window",
            source=f"{functional}.avg_pool{rank}d",
        ),
        Row(
            f"adaptive_avg_pool{rank}d(Tensor input, {many} output_size) -> Tensor",
            _adaptive_pool(rank, "avg", jnp.mean),
            "means of windows, as many as asked for",
            source=f"{functional}.adaptive_avg_pool{rank}d",
        ),
        Row(
            f"adaptive_max_pool{rank}d(Tensor input, {many} output_size) -> Tensor",
            _adaptive_pool(rank, "max", jnp.max),
            "largest items of windows, as many as asked for; equal ones share the gradient",
            source=f"{functional}.adaptive_max_pool{rank}d",
        ),
    )


ROWS = (
    *_rows(1),
    *_rows(2),
    *_rows(3),
    Row(
        "interpolate(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str mode='nearest', "
        "bool? align_corners=None, bool? recompute_scale_factor=None) -> Tensor",
        _interpolate,
        "items between the items, for another number of places",
        source="torch.nn.functional.interpolate",
    ),
)
