"""Quantiles, with and without nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, read_values
from oplib.errors import ArgumentError
from oplib.tensor import Tensor

_WAYS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Computes quantiles: the values below which given parts of the items are; nan if an item is nan.

    Args:
        input: a tensor of float32 or float64, with at least one item.
        q: the parts, from 0 to 1: a number, or a tensor of the dtype of the input with at most one dim.
        dim: the dim; by default all items.

    Returns:
        A tensor without the dim; for a vector ``q``, its first dim belongs to ``q``.

    Raises:
        ArgumentError: a dtype, part or interpolation is invalid, or there are no items.
        TracingError: ``q`` is a tensor whose values are traced.

    Gradient:
        With respect to the neighbouring items; with "linear" also to a tensor ``q``.

    Example:
        >>> oplib.quantile(oplib.tensor([3.0, 1.0, 2.0]), 0.25)
        tensor(1.5000)
    """
    parts = _read_parts("quantile", input, q, interpolation)
    flat, axis = _prepare("quantile", input, dim)
    ordered = ops.sort(flat, axis)[0]
    last = flat.shape[axis] - 1
    low, high, share = _find_indices(parts * last, interpolation)
    first, second = (
        ops.index_select(ordered, axis, box_like(input, positions, np.int32)) for positions in (low, high)
    )
    if isinstance(q, Tensor) and interpolation == "linear":  # the same numbers, with a gradient
        share = ops.sub(ops.mul(q, last), box_like(q, low, q.dtype))
    else:
        share = box_like(input, share, input.dtype)
    is_between = interpolation in ("linear", "midpoint")  # else one item, which may be infinite
    values = ops.lerp(first, second, _lay_along(share, axis, flat.ndim)) if is_between else first
    spoilt = ops.any(ops.isnan(flat), axis, True)
    values = ops.where(spoilt, ops.narrow(ordered, axis, last, 1), values)  # a nan is sorted last
    return _arrange(
        values, axis, keepdim=keepdim and bool(input.ndim), of_all=dim is None and input.ndim, q=q
    )


def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """Computes quantiles of the items that are not nan; nan if all items are nan.

    Args:
        input: a tensor of float32 or float64, with at least one item.
        q: the parts, from 0 to 1: a number, or a tensor of the dtype of the input with at most one dim.
        dim: the dim; by default all items.

    Returns:
        A tensor without the dim; for a vector ``q``, its first dim belongs to ``q``.

    Raises:
        ArgumentError: a dtype, part or interpolation is invalid, or there are no items.
        TracingError: ``q`` is a tensor whose values are traced.

    Gradient:
        With respect to the neighbouring items; with "linear" also to a tensor ``q``.

    Example:
        >>> oplib.nanquantile(oplib.tensor([3.0, oplib.nan, 2.0]), 0.5)
        tensor(2.5000)
    """
    parts = _read_parts("nanquantile", input, q, interpolation)
    flat, axis = _prepare("nanquantile", input, dim)
    ordered = ops.sort(flat, axis)[0]  # nan is sorted last
    last = ops.sum(ops.logical_not(ops.isnan(flat)), axis, True) - 1
    share = q if isinstance(q, Tensor) and interpolation == "linear" else box_like(input, parts, input.dtype)
    ranks = ops.mul(_lay_along(share, axis, flat.ndim), ops.clamp_min(last, 0))
    low, high = _find_neighbours(ranks, interpolation)
    first, second = (
        ops.gather(ordered, axis, ops._to_copy(index, np.dtype(np.int32))) for index in (low, high)
    )
    weight = 0.5 if interpolation == "midpoint" else ops.sub(ranks, low)
    values = ops.lerp(first, second, weight) if interpolation in ("linear", "midpoint") else first
    return _arrange(
        values, axis, keepdim=keepdim and bool(input.ndim), of_all=dim is None and input.ndim, q=q
    )


def _find_neighbours(ranks: Any, interpolation: str) -> tuple[Any, Any]:
    """Returns the positions below and above each rank; equal positions if one item suffices."""
    known = ops.detach(ranks)
    if interpolation in ("linear", "midpoint"):
        return ops.floor(known), ops.ceil(known)
    index = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation](known)
    return index, index


def _prepare(op: str, input: Any, dim: int | None) -> tuple[Any, int]:
    """Returns the items, and the axis along which they are sorted."""
    flat = ops.reshape(input, (-1,)) if dim is None or not input.ndim else input
    axis = find_dim(op, input.ndim, 0 if dim is None else dim)
    if not flat.shape[axis]:
        raise ArgumentError("input tensor must be non-empty", "Pass some items.")
    return flat, axis


def _lay_along(vector: Any, axis: int, count: int) -> Any:
    shape = [1] * count
    shape[axis] = -1
    return ops.reshape(vector, tuple(shape))


def _arrange(values: Any, axis: int, *, keepdim: bool, of_all: Any, q: Any) -> Any:
    """Moves the axis of several quantiles to the front, and removes that of a single one."""
    if isinstance(q, (int, float)) or not q.ndim:
        if of_all and keepdim:
            return ops.reshape(values, (1,) * of_all)
        return values if keepdim else ops.squeeze(values, axis)
    moved = ops.movedim(ops.unsqueeze(values, 0), axis + 1, 0)
    moved = ops.squeeze(moved, 1) if not keepdim else ops.movedim(moved, 1, axis + 1)
    return ops.reshape(moved, (-1, *(1,) * of_all)) if of_all and keepdim else moved


def _read_parts(op: str, input: Any, q: Any, interpolation: str) -> np.ndarray[Any, Any]:
    if input.dtype not in (np.float32, np.float64):
        raise ArgumentError("input tensor must be either float or double dtype", "Convert it.")
    if interpolation not in _WAYS:
        raise ArgumentError(f"interpolation must be one of {', '.join(_WAYS)}", "Leave it out for linear.")
    if not isinstance(q, (int, float)) and (q.dtype != input.dtype or q.ndim > 1):
        raise ArgumentError("q must be a scalar or 1D tensor of the dtype of the input", "Convert it.")
    values = q if isinstance(q, (int, float)) else read_values(op, q)
    parts = np.atleast_1d(np.asarray(values, np.float64))
    if ((parts < 0) | (parts > 1)).any():
        raise ArgumentError(f"{op}: q values must be in the range [0, 1]. Got {parts.tolist()}. Divide them.")
    return parts


def _find_indices(ranks: np.ndarray[Any, Any], interpolation: str) -> tuple[Any, Any, Any]:
    """Returns the positions below and above, and the weight between them; equal ones for an exact rank."""
    low, high = np.floor(ranks), np.ceil(ranks)
    if interpolation == "linear":
        return low, high, ranks - low
    if interpolation == "midpoint":
        return low, high, np.full_like(ranks, 0.5)
    index = {"lower": low, "higher": high, "nearest": np.round(ranks)}[interpolation]
    return index, index, np.zeros_like(ranks)


COMPOSED = (Composed(nanquantile, is_method=True, out=True), Composed(quantile, is_method=True, out=True))
