"""Statistics of observations: covariances, correlations, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels.promotion import (
    find_largest,
    find_smallest,
    in_single,
    is_integral,
    strong,
    to_floating,
)
from oplib.errors import ArgumentError
from oplib.library import Derivative
from oplib.tensor.dtypes.rules import COMPLEX, FLOATING


def _list_variables(self: Any) -> Any:
    """Returns an array with one variable per row."""
    if self.ndim > 2:
        raise ArgumentError(
            "expected input to have two or fewer dimensions", "Give one variable in each row."
        )
    return lax.reshape(to_floating(self), (1,) * (2 - self.ndim) + self.shape)


def _check_weights(name: str, weights: Any, kinds: str, rows: Any) -> None:
    is_right = is_integral(weights.dtype) if kinds == "integral" else weights.dtype in FLOATING
    if weights.ndim > 1 or weights.size != rows.shape[1] or not is_right:
        raise ArgumentError(
            f"expected {name} to have one {kinds} number for each observation", "Convert or cut them."
        )


def _cov(self: Any, fweights: Any = None, aweights: Any = None, *, correction: int = 1) -> Any:
    rows = _list_variables(self)
    real = lax.real(rows) if rows.dtype in COMPLEX else rows
    given: list[Any] = []
    for name, weights, kinds in (
        ("fweights", fweights, "integral"),
        ("aweights", aweights, "floating point"),
    ):
        if weights is not None:
            _check_weights(name, weights, kinds, rows)
            given.append(lax.reshape(lax.convert_element_type(weights, real.dtype), (rows.shape[1],)))

    def compute(rows: Any, *given: Any) -> Any:
        one = strong(1, lax.real(rows) if rows.dtype in COMPLEX else rows)
        weights = jnp.broadcast_to(one, (rows.shape[1],))
        for part in given:
            weights = weights * part
        total = jnp.sum(weights)
        less = strong(correction, one)
        if aweights is not None and correction:
            less = less * jnp.sum(weights * given[-1]) / total
        heavy = rows * lax.expand_dims(lax.convert_element_type(weights, rows.dtype), (0,))
        mean = jnp.sum(heavy, 1, keepdims=True) / lax.convert_element_type(total, rows.dtype)
        away = rows - mean
        heavy = away * lax.expand_dims(lax.convert_element_type(weights, rows.dtype), (0,))
        freedom = total - less
        freedom = jnp.where(freedom > 0, freedom, 0)
        return (away @ jnp.conj(heavy.T)) / lax.convert_element_type(freedom, rows.dtype)

    covariance = in_single(compute)(rows, *given)
    return lax.reshape(covariance, tuple(size for size in covariance.shape if size != 1))


def _corrcoef(self: Any) -> Any:
    return in_single(jnp.corrcoef)(_list_variables(self))


def _histc(self: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if bins < 1 or max < min:
        raise ArgumentError("bins must be > 0, and max must be larger than min", "Give a range.")
    flat = jnp.ravel(self)
    if not self.size:
        return jnp.zeros(bins, self.dtype)

    def compute(x: Any) -> Any:
        is_given = min != max
        low = strong(min, x) if is_given or min else find_smallest(x)
        high = strong(max, x) if is_given or max else find_largest(x)
        is_point = low == high
        low, high = (jnp.where(is_point, end + step, end) for end, step in ((low, -1), (high, 1)))
        bin_number = jnp.floor((x - low) * bins / (high - low))
        bin_number = jnp.where(x == high, bins - 1, bin_number)
        is_within = (x >= low) & (x <= high)
        index = jnp.where(is_within, bin_number, bins).astype(jnp.int32)
        return jnp.zeros(bins, x.dtype).at[index].add(1, mode="drop")

    return in_single(compute)(flat)


def _find_range(self: Any, bins: int, range: Sequence[float] | None) -> tuple[Any, Any]:
    if bins < 1 or (range is not None and (len(range) != 2 or range[0] > range[1])):
        raise ArgumentError(
            "bins must be > 0, and min should not exceed max", "Give a range, the lower end first."
        )
    if range is not None:
        low, high = (strong(end, self) for end in range)
    elif self.size:
        low, high = find_smallest(self), find_largest(self)
    else:
        low, high = strong(0, self), strong(1, self)
    is_point = low == high
    return jnp.where(is_point, low - 0.5, low), jnp.where(is_point, high + 0.5, high)


def _histogram(
    self: Any,
    bins: int = 100,
    weight: Any = None,
    *,
    range: Sequence[float] | None = None,
    density: bool = False,
) -> tuple[Any, Any]:
    low, high = _find_range(self, bins, range)
    steps = jnp.arange(bins + 1, dtype=self.dtype) / bins
    edges = jnp.where(steps == 1, high, low + (high - low) * steps)
    return _count_between(self, edges, weight, density), edges


def _histogram_between(self: Any, bins: Any, weight: Any = None, *, density: bool = False) -> tuple[Any, Any]:
    if bins.ndim != 1 or not bins.size or bins.dtype != self.dtype:
        raise ArgumentError(
            "bins are a vector of edges, of the dtype of the input", "Convert it, or give their number."
        )
    return _count_between(self, bins, weight, density), bins


def _count_between(self: Any, edges: Any, weight: Any, density: bool) -> Any:
    if weight is not None and (weight.shape != self.shape or weight.dtype != self.dtype):
        raise ArgumentError(
            "if weight tensor is provided it should have the shape and dtype of the input",
            "Expand or convert it.",
        )
    return _count_in_cells(lax.reshape(self, (self.size, 1)), [edges], weight, density=density)


def _histogram_grid(self: Any, bins: Sequence[Any], weight: Any = None, *, density: bool = False) -> Any:
    """Counts points, along the last axis, in the cells of a grid."""
    if self.ndim < 2 or len(bins) != self.shape[-1]:
        raise ArgumentError(
            "the input has 2 dimensions or more, and there are edges for each item of a point",
            "Give one for each.",
        )
    if any(edges.ndim != 1 or not edges.size or edges.dtype != self.dtype for edges in bins):
        raise ArgumentError(
            "bins are vectors of edges, of the dtype of the input", "Convert them, or give numbers."
        )
    if weight is not None and (weight.shape != self.shape[:-1] or weight.dtype != self.dtype):
        raise ArgumentError(
            "if weight tensor is provided it should have the dtype of the input, and a number for each point",
            "Expand or convert it.",
        )
    if not bins:  # points of no numbers lie in no cell
        return jnp.full((), jnp.nan if density else 0, self.dtype)
    points = lax.reshape(self, (math.prod(self.shape[:-1]), self.shape[-1]))
    return _count_in_cells(points, bins, weight, density=density)


def _count_in_cells(points: Any, bins: Sequence[Any], weight: Any, *, density: bool) -> Any:
    """Counts rows of numbers between edges; one on an edge, except the last, belongs to the cell above."""
    share = jnp.ones_like(points[:, 0]) if weight is None else lax.reshape(weight, points.shape[:1])
    indices, is_within = [], jnp.ones(points.shape[:1], bool)
    for axis, edges in enumerate(bins):
        items = points[:, axis]
        index = jnp.searchsorted(edges, items, side="right") - 1
        indices.append(jnp.where(items == edges[-1], edges.shape[0] - 2, index))
        is_within &= (items >= edges[0]) & (items <= edges[-1])
    shape = tuple(edges.shape[0] - 1 for edges in bins)
    beyond = [jnp.where(is_within, index, length) for index, length in zip(indices, shape, strict=True)]
    counts = jnp.zeros(shape, points.dtype).at[tuple(beyond)].add(share, mode="drop")
    if not density:
        return counts
    counts /= jnp.sum(counts)
    for axis, edges in enumerate(bins):
        counts /= lax.expand_dims(jnp.diff(edges), [other for other in range(len(bins)) if other != axis])
    return counts


_UNTOLD = Derivative(missing="torch has none either: counts are piecewise constant; detach the counted items")
ROWS = (
    Row(
        "cov(Tensor self, Tensor? fweights=None, Tensor? aweights=None, *, int correction=1) -> Tensor",
        _cov,
        "covariances of variables, one variable per row",
        dtypes="ihfc",
        autocast="result",
    ),
    Row(
        "corrcoef(Tensor self) -> Tensor",
        _corrcoef,
        "correlation coefficients of variables, one variable per row",
        dtypes="ihfc",
        autocast="result",
    ),
    Row(
        "histc(Tensor self, int bins=100, float min=0., float max=0.) -> Tensor",
        _histc,
        "number of items in each of several intervals of equal width, by default between the extrema",
        derivative=constant("counts are piecewise constant in the items"),
        dtypes="hf",
        exact_out=True,
    ),
    Row(
        "histogram.bin_ct(Tensor self, int bins=100, Tensor? weight=None, *, float[]? range=None, "
        "bool density=False) -> (Tensor hist, Tensor bin_edges)",
        _histogram,
        "number of items, or sum of weights, in each interval of equal width; and the edges",
        derivative=_UNTOLD,
        dtypes="f",
        exact_out=True,
    ),
    Row(
        "histogram.bins_tensor(Tensor self, Tensor bins, Tensor? weight=None, *, bool density=False) -> "
        "(Tensor hist, Tensor bin_edges)",
        _histogram_between,
        "number of items, or sum of weights, between each two edges; and the edges",
        derivative=_UNTOLD,
        dtypes="f",
    ),
    Row(
        "histogram_grid(Tensor self, Tensor[] bins, Tensor? weight=None, *, bool density=False) -> Tensor",
        _histogram_grid,
        "number of points, or sum of weights, in each cell of a grid, given by edges along each axis",
        derivative=_UNTOLD,
        dtypes="f",
        source="torch.histogramdd",
        is_internal=True,
    ),
)
