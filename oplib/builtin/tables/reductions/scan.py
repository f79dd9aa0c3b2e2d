"""Scans: cumulative functions along a dim."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import SELECTED, Row
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import in_single, is_integral, to_floating
from oplib.library import Derivative
from oplib.tensor import default_int_dtype

from .order import fits_pair, make_keys, run_packed

_LONG = 64
"""So many items are scanned with four branches at each place."""


def _accumulate(scan: Any, self: Any, dim: int, *, dtype: Any = None) -> Any:
    """Computes a cumulative sum or product; integers accumulate in int64."""
    axis = find_dim(self.ndim, dim)
    kind = dtype or (default_int_dtype() if is_integral(self.dtype) else self.dtype)
    array = lax.convert_element_type(self, kind)
    return in_single(lambda wide: scan(wide, axis))(array) if array.ndim else array


def _scan(function: Any, own: Any, array: Any, axis: int, *, reverse: bool = False) -> Any:
    """Scans in a tree; on CPUs JAX's own scans are windows, which take up to 20 times as long.

    A long axis is read with four branches at each place, in half to four fifths of the time of pairs.
    """
    length = array.shape[axis]
    if not isinstance(length, int):  # an exported program takes any length
        return own(array, axis, reverse)
    if length < _LONG:
        return lax.associative_scan(function, array, reverse, axis)
    if reverse:
        return lax.rev(_scan(function, own, lax.rev(array, (axis,)), axis), (axis,))
    pairs = [(0, -length % 4 if place == axis else 0, 0) for place in range(array.ndim)]
    wide = lax.pad(array, jnp.zeros((), array.dtype), pairs)
    branches = [lax.slice_in_dim(wide, place, None, 4, axis) for place in range(4)]
    parts = list(accumulate(branches, function))
    before = jnp.roll(_scan(function, own, parts[-1], axis), 1, axis)
    is_first = lax.broadcasted_iota(np.int32, before.shape, axis) == 0
    parts = [jnp.where(is_first, part, function(before, part)) for part in parts]
    return lax.slice_in_dim(lax.reshape(jnp.stack(parts, axis + 1), wide.shape), 0, length, axis=axis)


sum_in_tree = partial(_scan, lax.add, lax.cumsum)


def _save_dim(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.dim, ctx.dtype = inputs[1], inputs[0].dtype


def _sum_back(ctx: Any, g: Any) -> Any:
    axis = find_dim(g.ndim, ctx.dim)
    sums = in_single(lambda wide: sum_in_tree(wide, axis, reverse=True))(g) if g.ndim else g
    return lax.convert_element_type(sums, ctx.dtype), None


def _logcumsumexp(self: Any, dim: int) -> Any:
    array = to_floating(self)
    axis = find_dim(array.ndim, dim)
    return in_single(lambda wide: _scan_exponentials(wide, axis))(array) if array.ndim else array


def _scan_exponentials(array: Any, axis: int) -> Any:
    """Returns inf from the first inf on: the derivative there would be that of what follows alone."""
    if array.dtype.kind == "c":
        return lax.cumlogsumexp(array, axis)
    is_infinite = array == jnp.inf
    items = jnp.where(is_infinite, -jnp.inf, array)
    is_none = items == -jnp.inf
    largest = lax.stop_gradient(items)
    # Of each prefix the largest item, and the sum of the exponentials of the others' distances to it. The
    # largest has no derivative, and a prefix without items none at all.
    sums = jnp.where(is_none, 0, lax.exp(jnp.where(is_none, 0, items - largest)))
    largest, sums = lax.associative_scan(_add_exponentials, (largest, sums), axis=axis)
    is_none = sums == 0
    totals = jnp.where(is_none, -jnp.inf, largest + lax.log(jnp.where(is_none, 1, sums)))
    is_past = lax.associative_scan(jnp.logical_or, is_infinite, axis=axis)
    return jnp.where(is_past & ~jnp.isnan(totals), jnp.inf, totals)


def _add_exponentials(left: Any, right: Any) -> Any:
    (x, sum_x), (y, sum_y) = left, right
    largest = lax.max(x, y)
    base = jnp.where(largest == -jnp.inf, 0, largest)
    return largest, sum_x * lax.exp(x - base) + sum_y * lax.exp(y - base)


def _running(choose: Any, own: Any, *, packs: bool = False) -> Any:
    """Makes the kernel of a cumulative extremum: of equal items the last one counts, and nan is kept.

    It scans items, then positions of the best; on CPUs keys with their positions, in half of the time.
    """

    def find(items: Any, indices: Any, axis: int) -> Any:
        key = make_keys(items if choose is lax.max else ~items if is_integral(items.dtype) else -items)
        if packs and fits_pair(key.dtype):
            return run_packed(lambda pairs: _scan(lax.max, lax.cummax, pairs, axis), key, indices)
        is_best = (items == _scan(choose, own, items, axis)) | (items != items)
        return _scan(lax.max, lax.cummax, jnp.where(is_best, indices, 0), axis)

    def kernel(self: Any, dim: int) -> tuple[Any, Any]:
        axis = find_dim(self.ndim, dim)
        if not self.ndim:
            return self, lax.full((), 0, default_int_dtype())
        indices = lax.broadcasted_iota(default_int_dtype(), self.shape, axis)
        if not self.size:
            return self, indices
        picked = find(lax.stop_gradient(self), indices, axis)
        return jnp.take_along_axis(self, picked, axis, mode="promise_in_bounds"), picked

    return kernel


_SUMMED: dict[str, Any] = {"in_place": True, "result": "shape", "out": True, "autocast": "cuda float32"}
_CHOSEN: dict[str, Any] = {"derivative": SELECTED, "dtypes": "bihf", "exact_out": True}
ROWS = (
    Row(
        "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        partial(_accumulate, lax.cumsum),
        "cumulative sum along a dim",
        derivative=Derivative(backward=_sum_back, setup_context=_save_dim, linear=True),
        kernels=(("cpu", partial(_accumulate, sum_in_tree)),),
        **_SUMMED,
    ),
    Row(
        "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        partial(_accumulate, lax.cumprod),
        "cumulative product along a dim",
        kernels=(("cpu", partial(_accumulate, partial(_scan, lax.mul, lax.cumprod))),),
        **_SUMMED,
    ),
    Row(
        "logcumsumexp(Tensor self, int dim) -> Tensor",
        _logcumsumexp,
        "logarithm of the cumulative sum of exponentials",
        dtypes="hfc",
        result="shape",
        exact_out=True,
    ),
    Row(
        "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        _running(lax.max, lax.cummax),
        "cumulative maximum along a dim, and its indices",
        kernels=(("cpu", _running(lax.max, lax.cummax, packs=True)),),
        **_CHOSEN,
    ),
    Row(
        "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        _running(lax.min, lax.cummin),
        "cumulative minimum along a dim, and its indices",
        kernels=(("cpu", _running(lax.min, lax.cummin, packs=True)),),
        **_CHOSEN,
    ),
)
