"""Scattering: items written at given indices, or combined with the items there."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import SELECTED, Row
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.index_rules import check_fit, check_index, check_vector, list_indices
from oplib.builtin.shared_kernels.promotion import (
    compute_dtype,
    find_common_shape,
    in_single,
    is_integral,
    strong,
)
from oplib.errors import ArgumentError, DimensionError, UnsupportedDtypeError
from oplib.protocols import Values
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

# Along a dim ------------------------------------------------------------------------------------------------


def _check_source(index: Any, src: Any) -> None:
    """Checks that the source of scatter has an item per index."""
    if not index.size:
        return
    if max(index.ndim, 1) != max(src.ndim, 1) or any(
        mine > other for mine, other in zip(index.shape, src.shape, strict=False)
    ):
        raise ArgumentError(
            "index must have the same number of dimensions as src, and be no larger",
            "Cut it, or give more items.",
        )


def _check_dtype(self: Any, src: Any) -> None:
    if self.dtype != src.dtype:
        raise ArgumentError("expected self.dtype to be equal to src.dtype", "Convert one: tensor.to(dtype).")


def _cut_to(src: Any, index: Any) -> Any:
    return lax.slice(src, (0,) * src.ndim, index.shape) if src.shape != index.shape else src


_OF_BOOLS = {"add": "max", "multiply": "min"}


def combine(array: Any, index: Any, put: str, items: Any, **options: Any) -> Any:
    """Writes items at positions by a method of ``.at[...]``; a sum of bools is "or", a product "and"."""
    method = _OF_BOOLS.get(put, put) if items.dtype == dtypes.bool else put

    def write(array: Any, items: Any) -> Any:
        return getattr(array.at[index], method)(items, **options)

    return write(array, items) if put == "set" else in_single(write)(array, items)


def _check_scatter(self: Any, dim: int, index: Any, src: Any) -> int:
    """Checks the arguments of scatter, and returns the axis."""
    axis = find_dim(self.ndim, dim)
    check_fit(self, index, axis)
    _check_dtype(self, src)
    _check_source(index, src)
    return axis


def _scatter_by(put: str, self: Any, dim: int, index: Any, src: Any) -> Any:
    axis = _check_scatter(self, dim, index, src)
    if not index.size:
        return self
    if not self.ndim:
        return combine(self, (), put, lax.reshape(src, ()))
    return combine(self, list_indices(index, axis, self.ndim), put, _cut_to(src, index), mode="drop")


def _scatter_value(self: Any, dim: int, index: Any, value: Any) -> Any:
    items = jnp.broadcast_to(lax.convert_element_type(value, self.dtype), index.shape)
    return _scatter_by("set", self, dim, index, items)


_REDUCTIONS = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min"}


def _scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    axis = _check_scatter(self, dim, index, src)
    _check_reduce(reduce, self)
    if not index.size:
        return self
    indices, items = list_indices(index, axis, self.ndim), _cut_to(src, index)
    return _reduce_at(self, indices, items, reduce, include_self=include_self)


def _reduce_at(self: Any, indices: Any, items: Any, reduce: str, *, include_self: bool) -> Any:
    if reduce == "prod" and self.ndim and items.size and self.size:
        return multiply_scattered(self, indices, items, include_self=include_self)
    start = self if include_self else self.at[indices].set(_neutral(reduce, self), mode="drop")
    if reduce != "mean":
        return combine(start, indices, _REDUCTIONS[reduce], items, mode="drop")
    return in_single(lambda start, items: _find_means(start, indices, items, include_self))(start, items)


def _find_means(start: Any, indices: Any, items: Any, include_self: bool) -> Any:
    total = combine(start, indices, "add", items, mode="drop")
    ones = jnp.ones(items.shape, start.dtype)
    start_counts = jnp.full(start.shape, int(include_self), start.dtype)
    counts = start_counts.at[indices].add(ones, mode="drop")
    counts = jnp.where(counts == 0, 1, counts)
    return jnp.floor_divide(total, counts) if is_integral(start.dtype) else total / counts


def _check_reduce(reduce: str, self: Any) -> None:
    if reduce not in (*_REDUCTIONS, "mean"):
        raise ArgumentError(
            "reduce argument must be either sum, prod, mean, amax or amin", "Choose one of them."
        )
    if reduce == "mean" and self.dtype == dtypes.bool:
        raise UnsupportedDtypeError("bools have no mean", "Convert them.")
    if reduce in ("amax", "amin") and self.dtype.kind == "c":
        raise UnsupportedDtypeError("complex numbers have no order", "Choose sum, prod or mean.")


def _neutral(reduce: str, like: Any) -> Any:
    if reduce in ("sum", "mean"):
        return strong(0, like)
    if reduce == "prod":
        return strong(1, like)
    if like.dtype == dtypes.bool:
        return strong(reduce == "amin", like)
    limits = jnp.iinfo(like.dtype) if is_integral(like.dtype) else None
    low, high = (limits.min, limits.max) if limits else (-jnp.inf, jnp.inf)
    return strong(low if reduce == "amax" else high, like)


# Whole slices, the flat tensor, and masks -------------------------------------------------------------------


def _whole(axis: int, index: Any) -> Values:
    return (*(slice(None),) * axis, index)


def _put_slices(put: str, self: Any, dim: int, index: Any, source: Any, *, alpha: Any = None) -> Any:
    """Computes index_add or index_copy, on whole slices along a dim."""
    check_vector(index)
    _check_dtype(self, source)
    axis = find_dim(self.ndim, dim)
    if alpha is None:
        items = source
    else:
        own = compute_dtype(source.dtype, (source, alpha))
        scaled = lax.convert_element_type(source, own) * lax.convert_element_type(alpha, own)
        items = lax.convert_element_type(scaled, source.dtype)
    if not self.ndim:
        return combine(self, (), put, lax.reshape(items, ()))
    _check_slices(self, axis, index, source, DimensionError if put == "set" else ArgumentError)
    return combine(self, _whole(axis, index), put, items, mode="drop")


def _check_slices(self: Any, axis: int, index: Any, source: Any, kind: type[ArgumentError]) -> None:
    """Raises if a source has not one slice along the axis for each index."""
    whole, given = self.shape or (1,), source.shape or (1,)
    expected = (*whole[:axis], index.size, *whole[axis + 1 :])
    if given != expected or source.ndim != self.ndim:
        raise kind(
            "number of indices should be equal to source.size(dim), and the other sizes to those of the "
            "tensor",
            f"Give a source of shape {list(expected)}.",
        )


def _index_reduce(
    self: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    check_vector(index)
    _check_dtype(self, source)
    axis = find_dim(self.ndim, dim)
    if reduce == "sum":
        raise ArgumentError("expected reduce to be one of prod, mean, amax or amin", "Use index_add.")
    if self.dtype == dtypes.bool:
        raise UnsupportedDtypeError("not implemented for bool", "Convert it.")
    _check_reduce(reduce, self)
    whole = self if self.ndim else lax.reshape(self, (1,))
    items = source if self.ndim or source.ndim else lax.reshape(source, (1,))
    _check_slices(self, axis, index, source, ArgumentError)
    full = lax.broadcast_in_dim(jnp.ravel(index), items.shape, (axis,))
    reduced = _reduce_at(
        whole, list_indices(full, axis, whole.ndim), items, reduce, include_self=include_self
    )
    return lax.reshape(reduced, self.shape)


def _index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    if index.dtype not in (dtypes.int32, dtypes.int64):
        raise DimensionError("expected dtype int64 for index", "Convert it: tensor.int().")
    if index.ndim > 1:
        raise ArgumentError("index has to be a vector, or without axes", "Flatten it.")
    axis = find_dim(self.ndim, dim)
    item = lax.convert_element_type(value, self.dtype)
    if not self.ndim:
        return jnp.broadcast_to(item, ())
    return self.at[_whole(axis, jnp.atleast_1d(index))].set(item, mode="drop")


def _put(self: Any, index: Any, source: Any, accumulate: bool) -> Any:
    check_index(index)
    _check_dtype(self, source)
    if index.size != source.size:
        raise DimensionError(
            "expected source and index to have the same number of elements", "Give one item for each place."
        )
    flat, places = jnp.ravel(self), jnp.ravel(index)
    items = jnp.ravel(source)
    written = combine(flat, places, "add" if accumulate else "set", items, mode="drop")
    return lax.reshape(written, self.shape)


def _masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    """Writes the items of the source in order where the mask is True."""
    if mask.dtype != dtypes.bool:
        raise ArgumentError("expected a mask of bools", "Compare it with something.")
    _check_dtype(self, source)
    shape = find_common_shape(self, mask)
    holds = lax.reshape(jnp.broadcast_to(mask, shape), (math.prod(shape),))
    order = jnp.cumsum(holds, dtype=default_int_dtype()) - 1
    items = jnp.take(jnp.ravel(source), order, mode="clip")
    return lax.reshape(jnp.where(holds, items, jnp.broadcast_to(self, shape).reshape(-1)), shape)


ROWS = (
    Row(
        "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        _scatter_value,
        "with a number at given indices along a dim",
        operand=("value",),
    ),
    Row(
        "scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        partial(_scatter_by, "set"),
        "with the items of src at given indices along a dim",
        in_place=True,
    ),
    Row(
        "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        partial(_scatter_by, "add"),
        "with the items of src added at given indices along a dim",
        in_place=True,
        autocast="cuda widest",
    ),
    Row(
        "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
        "include_self=True) -> Tensor",
        _scatter_reduce,
        "with the items of src combined with the items at given indices along a dim",
        derivative=SELECTED,
        in_place=True,
        source="torch.scatter_reduce",
    ),
    Row(
        "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
        partial(_put_slices, "add"),
        "with the slices of source added at given indices of a dim",
        operand=("alpha",),
        in_place=True,
    ),
    Row(
        "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
        partial(_put_slices, "set"),
        "with the slices of source at given indices of a dim",
        in_place=True,
        autocast="cpu widest",
    ),
    Row(
        "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True) -> Tensor",
        _index_reduce,
        "with the slices of source combined with the slices at given indices of a dim",
        derivative=SELECTED,
        in_place=True,
        out=True,
    ),
    Row(
        "index_fill(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
        _index_fill,
        "with a number in the slices at given indices of a dim",
        operand=("value",),
        in_place=True,
    ),
    Row(
        "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
        _put,
        "with the items of source at given indices of the flat tensor",
        in_place=True,
    ),
    Row(
        "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
        _masked_scatter,
        "with the items of source, in order, where the mask is True",
        in_place=True,
    ),
)


# Products ---------------------------------------------------------------------------------------------------

# JAX's scattered product has no derivative with respect to the items. The usual formula divides the product
# by an item, and so fails for an item of 0. A scan along the items, sorted by position, only multiplies. So
# its derivatives of every order are correct for 0 too.


def multiply_scattered(whole: Any, index: Values, items: Any, *, include_self: bool) -> Any:
    """Returns the whole with the products of items at their positions.

    Args:
        whole: an array of any shape.
        index: for each axis of the whole, the position of each item; invalid positions are ignored.
        items: an array of the shape of the positions.
        include_self: whether the item of the whole is a factor too.
    """
    size = whole.size
    flat = _find_flat(whole.shape, index)
    order = jnp.argsort(flat, stable=True)
    targets = flat[order]
    values = jnp.ravel(items)[order]
    _, products = lax.associative_scan(_combine, (targets, values))
    following = jnp.concatenate([targets[1:], jnp.full((1,), -1, targets.dtype)])
    ends = jnp.where(targets != following, targets, size)  # the others are dropped
    whole_flat = lax.reshape(whole, (size,))
    factors = jnp.ones((size,), whole.dtype).at[ends].set(products, mode="drop")
    if include_self:
        return lax.reshape(whole_flat * factors, whole.shape)
    is_hit = jnp.zeros((size,), bool).at[flat].set(True, mode="drop")
    return lax.reshape(jnp.where(is_hit, factors, whole_flat), whole.shape)


def _combine(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Combines two runs sorted by target: returns the last target and the product of its items."""
    factor = jnp.where(first[0] == second[0], first[1], jnp.ones_like(first[1]))
    return second[0], factor * second[1]


def _find_flat(shape: tuple[int, ...], index: Values) -> Any:
    """Returns the row-major number of each position; the size of the whole for an invalid position."""
    count = 1
    flat: Any = jnp.zeros_like(index[0])
    is_there: Any = jnp.ones(index[0].shape, bool)
    for length, along in zip(reversed(shape), reversed(index), strict=True):
        flat = flat + along * count
        is_there = is_there & (along >= 0) & (along < length)
        count *= length
    known = jnp.where(is_there, flat, count)
    return jnp.ravel(known)
