"""Reductions: sums and products, extrema, and tests of all items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import SELECTED, Row, constant
from oplib.builtin.shared_kernels.dims import find_dim, find_dims
from oplib.builtin.shared_kernels.picked_gradients import OF_CHOSEN
from oplib.builtin.shared_kernels.promotion import (
    choose_larger,
    choose_smaller,
    elementwise,
    find_largest,
    find_smallest,
    in_single,
    is_integral,
    strong,
    sum_items,
    to_floating,
)
from oplib.builtin.shared_kernels.shared_gradients import ALONG, LARGER, OF_ALL, OF_EXTREMA, SMALLER
from oplib.errors import ArgumentError, DimensionError
from oplib.library import Derivative
from oplib.protocols import AnyFunction
from oplib.tensor import default_int_dtype
from oplib.tensor.devices.layout import find_explicit_mesh
from oplib.tensor.dtypes import names as dtypes

_LONG = 128
"""From this length on an axis is searched in blocks."""
_STEP = constant("the result is a bool or an index, which is piecewise constant")
_DIM = "int[1]? dim=None, bool keepdim=False"

# Sums and products ------------------------------------------------------------------------------------------


def _find_sum_dtype(self: Any, dtype: Any) -> Any:
    """Returns the dtype of a sum: int64 for integers, unless ``dtype`` is given."""
    if dtype is None and is_integral(self.dtype):
        return default_int_dtype()
    return dtype or self.dtype


def _sum(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    array = lax.convert_element_type(self, _find_sum_dtype(self, dtype))
    return sum_items(array, find_dims(self, dim), keepdims=keepdim)


def _nansum(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    return _sum(_without_nan(self), dim, keepdim, dtype=dtype)


def _without_nan(array: Any) -> Any:
    return array if is_integral(array.dtype) else jnp.where(jnp.isnan(array), 0, array)


def _mean(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    array = lax.convert_element_type(self, dtype or self.dtype)
    axes = find_dims(self, dim)
    return in_single(lambda wide: jnp.mean(wide, axis=axes, keepdims=keepdim))(array)


def _nanmean(self: Any, dim: Sequence[int] | None, keepdim: bool, *, dtype: Any = None) -> Any:
    axes = find_dims(self, dim)

    def compute(array: Any) -> Any:
        counts = jnp.sum(~jnp.isnan(array), axis=axes, keepdims=keepdim, dtype=default_int_dtype())
        total = jnp.sum(_without_nan(array), axis=axes, keepdims=keepdim)
        is_none = counts == 0
        mean = total / lax.convert_element_type(jnp.where(is_none, 1, counts), array.dtype)
        none = jnp.where(is_none, strong(jnp.nan, total), strong(0, total))
        return jnp.where(is_none, none * jnp.sum(array, axis=axes, keepdims=keepdim), mean)

    return in_single(compute)(lax.convert_element_type(self, dtype or self.dtype))


def _prod(self: Any, *, dtype: Any = None) -> Any:
    return _multiply(self, None, keepdim=False, dtype=dtype)


def _prod_dim(self: Any, dim: int, keepdim: bool, *, dtype: Any = None) -> Any:
    return _multiply(self, find_dims(self, [dim]), keepdim=keepdim, dtype=dtype)


def _multiply(self: Any, axes: Any, *, keepdim: bool, dtype: Any) -> Any:
    """Computes a product; numpy's product widens short integers unless the dtype is given."""
    kind = _find_sum_dtype(self, dtype)
    return jnp.prod(lax.convert_element_type(self, kind), axis=axes, keepdims=keepdim, dtype=kind)


def _count_nonzero(self: Any, dim: Sequence[int] | None) -> Any:
    is_there = self != strong(0, self)
    return jnp.sum(is_there, axis=find_dims(self, dim), dtype=default_int_dtype())


def _logsumexp(self: Any, dim: Sequence[int], keepdim: bool) -> Any:
    axes = find_dims(self, dim)
    return in_single(lambda wide: jax.nn.logsumexp(wide, axes, keepdims=keepdim))(to_floating(self))


def _save_exponents(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output)
    ctx.dims, ctx.keepdim = inputs[1:]


def _share_exponentials(ctx: Any, g: Any) -> Any:
    """Returns the share of each item; 0 where all are -inf."""
    x, y = ctx.saved_tensors
    axes = find_dims(x, ctx.dims)
    y, g = (array if ctx.keepdim else lax.expand_dims(array, axes) for array in (y, g))
    share = in_single(lambda x, y, g: g * jnp.conj(lax.exp(x - jnp.where(y == -jnp.inf, 0, y))))
    return share(x, y, g), None, None


SUMS = (
    Row(
        f"sum(Tensor self, {_DIM}, *, ScalarType? dtype=None) -> Tensor",
        _sum,
        "sum over given axes, or over all",
        out=True,
        autocast="cuda float32",
    ),
    Row(
        f"nansum(Tensor self, {_DIM}, *, ScalarType? dtype=None) -> Tensor",
        _nansum,
        "sum in which nan counts as 0",
        derivative=SELECTED,
        dtypes="bihf",
        out=True,
    ),
    Row(
        f"mean(Tensor self, {_DIM}, *, ScalarType? dtype=None) -> Tensor",
        _mean,
        "mean over given axes, or over all",
        dtypes="hfc",
        out=True,
    ),
    Row(
        f"nanmean(Tensor self, {_DIM}, *, ScalarType? dtype=None) -> Tensor",
        _nanmean,
        "mean of all items except nan",
        derivative=SELECTED,
        dtypes="hf",
        out=True,
    ),
    Row(
        "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        _prod,
        "product of all items",
        out=True,
        autocast="float32",
    ),
    Row(
        "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
        _prod_dim,
        "product along a dim",
        autocast="float32",
    ),
    Row(
        "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
        _count_nonzero,
        "number of items that are not 0",
        derivative=_STEP,
        out=True,
    ),
    Row(
        "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
        _logsumexp,
        "log(sum(exp(self))) without overflow",
        derivative=Derivative(backward=_share_exponentials, setup_context=_save_exponents),
        out=True,
        autocast="cuda float32",
    ),
)

# Extrema ----------------------------------------------------------------------------------------------------


def refuse_empty(self: Any, axes: Sequence[int]) -> None:
    """Raises if a reduction would have to choose among no items.

    Raises:
        DimensionError: an axis has no items.
    """
    for axis in axes:
        if self.ndim and not self.shape[axis]:
            raise DimensionError(
                f"expected reduction dim {axis} to have non-zero size", "Choose another dim."
            )


def _refuse_no_items(self: Any, kind: type[Exception]) -> None:
    if not self.size:
        raise kind(
            "expected reduction dim to be specified for a tensor without items",
            "Pass dim=, or a tensor with items.",
        )


def _find_whole(reduce: Any, self: Any) -> Any:
    _refuse_no_items(self, ArgumentError)
    return reduce(self)


def take_at(array: Any, indices: Any, axis: int) -> Any:
    """Returns the items at positions along an axis, which is kept with length 1."""
    return jnp.take_along_axis(array, lax.expand_dims(indices, (axis,)), axis, mode="promise_in_bounds")


def find_first_position(is_it: Any, axis: int, dtype: Any) -> Any:
    """Returns the first position along an axis at which a condition holds; the length if it holds nowhere."""
    positions = lax.broadcasted_iota(dtype, is_it.shape, axis)
    return jnp.min(jnp.where(is_it, positions, is_it.shape[axis]), axis)


def find_extremum(reduce: Any, array: Any, axis: int, dtype: Any, is_there: Any = True) -> Any:
    """Returns the first position of the extremum along an axis, that of the first nan if there is one.

    Two reductions take a tenth of the time of ``lax.argmax`` on CPUs. The second one stores all positions, so
    a long axis is split into blocks, and only that of the extremum is searched.
    """
    array = lax.stop_gradient(array)
    length = array.shape[axis]
    count = _count_blocks(length) if is_there is True and find_explicit_mesh([array]) is None else 1
    if count > 1:
        size = length // count
        blocks = array.reshape(*array.shape[:axis], count, size, *array.shape[axis + 1 :])
        first = find_extremum(reduce, reduce(blocks, axis + 1), axis, dtype)
        items = take_at(blocks, lax.expand_dims(first, (axis,)), axis)
        return first * size + find_extremum(reduce, lax.squeeze(items, (axis,)), axis, dtype)
    is_it = array == reduce(array, axis=axis, keepdims=True)
    is_it = is_it if is_integral(array.dtype) else is_it | jnp.isnan(array)
    return find_first_position(is_it & is_there, axis, dtype)


def _count_blocks(length: Any) -> int:
    """Returns the largest divisor of a length up to its root; 1 if it is short or unknown."""
    if not isinstance(length, int) or length < _LONG:
        return 1
    return next(count for count in range(math.isqrt(length), 0, -1) if not length % count)


def find_along(find: Any, self: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Returns the items along a dim that ``find(array, axis, dtype)`` gives the positions of, and these.

    The gradient goes to the selected items only.
    """
    axis = find_dim(self.ndim, dim)
    if not self.ndim:
        return self, lax.full((), 0, default_int_dtype())
    refuse_empty(self, [axis])
    picked = find(self, axis, default_int_dtype())
    values = take_at(self, picked, axis)
    if keepdim:
        return values, lax.expand_dims(picked, (axis,))
    return lax.squeeze(values, (axis,)), picked


def _find_index(find: Any, self: Any, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        _refuse_no_items(self, DimensionError)
        index = find(jnp.ravel(self), 0, default_int_dtype())
        return lax.reshape(index, (1,) * self.ndim) if keepdim else index
    axis = find_dim(self.ndim, dim)
    if not self.ndim:
        return lax.full((), 0, default_int_dtype())
    refuse_empty(self, [axis])
    index = find(self, axis, default_int_dtype())
    return lax.expand_dims(index, (axis,)) if keepdim else index


def _find_extreme(reduce: Any, self: Any, dim: Sequence[int], keepdim: bool) -> Any:
    axes = find_dims(self, dim)
    if not dim:
        _refuse_no_items(self, ArgumentError)
    refuse_empty(self, axes)
    return reduce(self, axis=axes, keepdims=keepdim)


def _aminmax(self: Any, *, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
    dims = [] if dim is None else [dim]
    lowest, highest = (_find_extreme(find, self, dims, keepdim) for find in (find_smallest, find_largest))
    return lowest, highest


def _extremum(op: str, adjective: str, reduce: Any, choose: Any) -> tuple[Row, ...]:
    """Makes the rows of ``max`` or ``min``."""
    return (
        Row(
            f"{op}(Tensor self) -> Tensor",
            partial(_find_whole, reduce),
            f"{adjective}est item; equal items share the gradient",
            derivative=OF_ALL,
            dtypes="bihf",
            out=True,
        ),
        Row(
            f"{op}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
            partial(find_along, partial(find_extremum, reduce)),
            f"{adjective}est items along a dim, and their indices",
            derivative=OF_CHOSEN,
            dtypes="bihf",
        ),
        Row(
            f"{op}.other(Tensor self, Tensor other) -> Tensor",
            elementwise(choose),
            f"{adjective}er of two items; equal items share the gradient",
            derivative=LARGER if op == "max" else SMALLER,
            dtypes="bihf",
        ),
        Row(
            f"a{op}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
            partial(_find_extreme, reduce),
            f"{adjective}est items over given axes, or over all; equal items share the gradient",
            derivative=ALONG,
            dtypes="bihf",
            out=True,
        ),
        Row(
            f"arg{op}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
            partial(_find_index, partial(find_extremum, reduce)),
            f"index of the {adjective}est item, of equal items the first",
            derivative=_STEP,
            dtypes="ihf",
            out=True,
        ),
    )


EXTREMA = (
    *_extremum("max", "larg", find_largest, choose_larger),
    *_extremum("min", "small", find_smallest, choose_smaller),
    Row(
        "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
        _aminmax,
        "smallest and largest items; equal items share the gradient",
        derivative=OF_EXTREMA,
        dtypes="bihf",
        exact_out=True,
    ),
)

# Tests of all items -----------------------------------------------------------------------------------------


def _ask(reduce: AnyFunction, self: Any, dim: Sequence[int] | None, keepdim: bool) -> Any:
    """As in torch, uint8 gives uint8, and an empty list of dims means no reduction."""
    is_there = self if self.dtype == dtypes.bool else self != 0
    axes = find_dims(self, dim) if dim is None or len(dim) else ()
    answer = reduce(is_there, axis=axes, keepdims=keepdim)
    return lax.convert_element_type(answer, dtypes.uint8) if self.dtype == dtypes.uint8 else answer


QUESTIONS = tuple(
    Row(
        f"{op}(Tensor self, {_DIM}) -> Tensor",
        partial(_ask, reduce),
        f"whether {which} nonzero",
        derivative=_STEP,
        out=True,
    )
    for op, reduce, which in (("all", jnp.all, "all items are"), ("any", jnp.any, "one of the items is"))
)

ROWS = (*SUMS, *EXTREMA, *QUESTIONS)
