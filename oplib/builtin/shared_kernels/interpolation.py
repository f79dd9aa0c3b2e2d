"""Interpolation: new items between the items of a tensor, by the weights of a few items along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedArgumentError

from .promotion import in_single

_Array = np.ndarray[Any, Any]
_Taps = tuple[_Array, _Array]  # for each result the places of the items along an axis, and their weights
_LARGEST_MATRIX = 2**22
_FEW_TAPS = 8
"""So many are added one by one, in a sixth of the time that XLA takes for a sum over an axis."""


def find_ranges(size: int, count: int) -> list[tuple[int, int]]:
    """Returns the ranges of positions that are pooled into each of ``count`` positions."""
    return [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]


# Weights ----------------------------------------------------------------------------------------------------


def _find_step(count: int, size: int, align_corners: bool, scale: float | None) -> float:
    """Returns the distance in a source, of ``size`` items, between the coordinates of ``count`` items."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return size / count if scale is None else 1 / scale


def _find_sources(count: int, size: int, align_corners: bool, scale: float | None) -> _Array:
    """Returns the source coordinates, along an axis of ``size`` items, of each of ``count`` items."""
    indices = np.arange(count)
    step = _find_step(count, size, align_corners, scale)
    return indices * step if align_corners else (indices + 0.5) * step - 0.5


def _find_taps(mode: str, count: int, size: int, *, align_corners: bool, scale: float | None) -> _Taps:
    """Returns the items along an axis that are added up for each of ``count`` items, and their weights."""
    rows = np.arange(count)
    step = _find_step(count, size, False, scale)
    if mode in ("nearest", "nearest-exact"):
        within = 0.5 if mode == "nearest-exact" else 0.0
        places = np.minimum(np.floor((rows + within) * step).astype(int), size - 1)
        return places[:, None], np.ones((count, 1))
    if mode == "area":
        starts, stops = rows * size // count, -(-(rows + 1) * size // count)
        places, is_inside = _list_between(starts, stops)
        return places, is_inside / (stops - starts)[:, None]
    sources = _find_sources(count, size, align_corners, scale)
    if mode != "bicubic":
        sources = np.maximum(sources, 0)
    low = np.floor(sources).astype(int)
    away = sources - low
    taps = weigh_cubic(away) if mode == "bicubic" else {0: 1 - away, 1: away}
    places = np.clip(low[:, None] + np.array([*taps]), 0, size - 1)
    weights = np.stack([*taps.values()], 1)
    for tap in reversed(range(1, len(taps))):  # those beyond an end are the item at the end
        is_same = places[:, tap] == places[:, tap - 1]
        weights[is_same, tap - 1] += weights[is_same, tap]
        weights[is_same, tap] = 0
    return places, weights


def _list_between(starts: _Array, stops: _Array) -> _Taps:
    """Returns the positions from each start to its stop, and which of them are there; the rest fill a row."""
    places = starts[:, None] + np.arange((stops - starts).max())
    is_inside = places < stops[:, None]
    return np.where(is_inside, places, starts[:, None]), is_inside


def _near(x: _Array, a: float) -> _Array:
    """Returns Keys' kernel for distances up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: _Array, a: float) -> _Array:
    """Returns Keys' kernel for distances from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def weigh_cubic(t: _Array) -> dict[int, _Array]:
    """Returns Keys' kernel with a = -0.75 at the four neighbouring positions."""
    a = -0.75
    return {-1: _far(t + 1, a), 0: _near(t, a), 1: _near(1 - t, a), 2: _far(2 - t, a)}


def _find_smooth_taps(mode: str, count: int, size: int, *, align_corners: bool, scale: float | None) -> _Taps:
    """Returns the items and weights of a kernel as wide as the step, which removes all finer detail."""
    step = _find_step(count, size, align_corners, scale)
    width, reach = max(step, 1.0), (2.0 if mode == "bicubic" else 1.0) * max(step, 1.0)
    centers = step * (np.arange(count) + 0.5)
    starts = np.maximum((centers - reach + 0.5).astype(int), 0)
    stops = np.minimum((centers + reach + 0.5).astype(int), size)
    places, is_inside = _list_between(starts, stops)
    away = np.abs((places - centers[:, None] + 0.5) / width)
    if mode == "bicubic":  # with the usual constant for this mode
        kernel = np.where(away < 1, _near(away, -0.5), np.where(away < 2, _far(away, -0.5), 0.0))
    else:
        kernel = np.maximum(1 - away, 0)
    kernel = np.where(is_inside, kernel, 0.0)
    return places, kernel / kernel.sum(1, keepdims=True)


def _weigh(x: Any, taps: _Taps, axis: int) -> Any:
    """Sums weighted items along an axis; an inf or nan affects only the results with its weight, as in torch.

    A product with a matrix would spread an inf or nan along the whole axis. A matrix that is not too large is
    used for the derivative, because XLA computes it faster than the scattered additions of a look-up's.
    """
    is_used = (taps[1] != 0).any(0)
    indices, weights = taps[0][:, is_used], taps[1][:, is_used]
    count = indices.shape[1]

    def look_up(x: Any) -> Any:
        if count == 1:  # the weight is 1
            return jnp.take(x, indices[:, 0], axis=axis, mode="clip")
        columns = np.split(np.arange(count), count if count <= _FEW_TAPS else 1)
        return sum(add(x, indices[:, some], weights[:, some]) for some in columns)

    def add(x: Any, indices: Any, weights: Any) -> Any:
        factors = np.expand_dims(weights, [*range(axis), *range(axis + 2, x.ndim + 1)])
        parts = jnp.take(x, indices, axis=axis, mode="clip") * jnp.asarray(factors, x.dtype)
        return jnp.where(factors != 0, parts, 0).sum(axis + 1)

    if len(weights) * x.shape[axis] > _LARGEST_MATRIX:
        return look_up(x)
    matrix = np.zeros((len(weights), x.shape[axis]))
    np.add.at(matrix, (np.arange(len(weights))[:, None], indices), weights)
    differentiable = jax.custom_jvp(look_up)
    differentiable.defjvps(
        lambda tangent, *_: jnp.moveaxis(
            jnp.tensordot(tangent, jnp.asarray(matrix, tangent.dtype), axes=(axis, 1)), -1, axis
        )
    )
    return differentiable(x)


# The op -----------------------------------------------------------------------------------------------------

_MODES = {
    "nearest": 0,
    "nearest-exact": 0,
    "area": 0,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}


def _check_sizes(size: Any, scale_factor: Any, recompute: bool | None) -> None:
    if (size is None) == (scale_factor is None):
        raise ArgumentValueError("only one of size or scale_factor should be defined", "Pass only one.")
    if recompute and size is not None:
        raise ArgumentValueError(
            "recompute_scale_factor is not meaningful with an explicit size", "Leave it out."
        )


def _check_mode(input: Any, mode: str, align_corners: bool | None, antialias: bool) -> None:
    rank = input.ndim - 2
    if align_corners is not None and mode in _MODES and not _MODES[mode]:
        raise ArgumentValueError("align_corners goes with linear and cubic modes only", "Leave it out.")
    if antialias and (mode not in ("bilinear", "bicubic") or rank != 2):
        raise ArgumentValueError(
            "antialias is restricted to bilinear and bicubic modes and 4D input", "Leave it out."
        )
    if mode not in _MODES or (_MODES[mode] or rank) != rank or not 1 <= rank <= 3:
        raise UnsupportedArgumentError(
            "the mode does not fit the input",
            "'linear' takes 3D input, 'bilinear' and 'bicubic' 4D, 'trilinear' 5D, the others all of these.",
        )


def _check_count(input: Any, numbers: Sequence[Any]) -> None:
    rank = input.ndim - 2
    if len(numbers) != rank:
        raise ArgumentValueError(
            "input and output must have the same number of spatial dimensions",
            f"Pass one number, or a sequence of {rank}.",
        )


def check_counts(input: Any, size: Any, scale_factor: Any, *_: Any) -> None:
    """Checks that the number of given sizes matches the number of spatial axes."""
    for numbers in (size, scale_factor):
        if isinstance(numbers, (list, tuple)) and 1 <= input.ndim - 2 <= 3:
            _check_count(input, cast("Sequence[Any]", numbers))


def _find_counts(input: Any, size: Any, scale_factor: Any) -> tuple[list[int], list[float]]:
    """Returns the number of items along each axis, and the scale factors if they were given."""
    rank = input.ndim - 2
    numbers = list(size if scale_factor is None else scale_factor)
    numbers *= rank if len(numbers) == 1 else 1  # one number comes in a list too
    _check_count(input, numbers)
    if scale_factor is None:
        counts = numbers
    else:
        counts = [
            math.floor(length * factor) for length, factor in zip(input.shape[2:], numbers, strict=True)
        ]
    if min(*counts, *input.shape[2:]) < 1 or not input.shape[1]:
        raise ArgumentError(
            f"input and output sizes should be greater than 0, and the output has {counts}",
            "Ask for at least one place along each axis.",
        )
    return counts, [] if scale_factor is None else numbers


def interpolate(
    input: Any,
    size: Sequence[int] | None = None,
    scale_factor: Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """The kernel of the op."""
    _check_sizes(size, scale_factor, recompute_scale_factor)
    _check_mode(input, mode, align_corners, antialias)
    counts, factors = _find_counts(input, size, scale_factor)
    scales: list[float | None] = [*factors]
    if not factors or recompute_scale_factor or mode == "area":
        scales = [None] * len(counts)
    find = _find_smooth_taps if antialias else _find_taps

    def compute(x: Any) -> Any:
        for axis, (count, scale) in enumerate(zip(counts, scales, strict=True), start=2):
            taps = find(mode, count, x.shape[axis], align_corners=bool(align_corners), scale=scale)
            x = _weigh(x, taps, axis)
        return x

    return in_single(compute)(input)
