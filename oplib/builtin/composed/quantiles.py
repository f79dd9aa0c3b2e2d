"""Quantiles, with and without nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.reductions.quantiles import WAYS
from oplib.builtin.values import read_known
from oplib.errors import ArgumentError
from oplib.tensor import Tensor


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

    Gradient:
        With respect to the neighbouring items; with "linear" also to a tensor ``q``.

    Example:
        >>> oplib.quantile(oplib.tensor([3.0, 1.0, 2.0]), 0.25)
        tensor(1.5000)
    """
    return _find("quantile", input, q, dim, keepdim, interpolation)


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

    Gradient:
        With respect to the neighbouring items; with "linear" also to a tensor ``q``.

    Example:
        >>> oplib.nanquantile(oplib.tensor([3.0, oplib.nan, 2.0]), 0.5)
        tensor(2.5000)
    """
    return _find("nanquantile", input, q, dim, keepdim, interpolation)


def _find(op: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    if input.dtype.kind in "biuc":  # halves are for autocast to cast, or for the op to refuse
        raise ArgumentError("input tensor must be either float or double dtype", "Convert it.")
    if interpolation not in WAYS:
        raise ArgumentError(f"interpolation must be one of {', '.join(WAYS)}", "Leave it out for linear.")
    is_number = isinstance(q, (int, float))
    if not is_number and (q.dtype != input.dtype or q.ndim > 1):
        raise ArgumentError("q must be a scalar or 1D tensor of the dtype of the input", "Convert it.")
    parts = np.asarray(q) if is_number else read_known(q)
    if parts is not None and (wrong := parts[~((parts >= 0) & (parts <= 1))]).size:
        raise ArgumentError(f"q values must be in the range [0, 1]; one is {wrong[0]}", "Divide them.")
    axis = find_dim(input.ndim, 0 if dim is None else dim)
    if 0 in (input.shape if dim is None else input.shape[axis : axis + 1]):
        raise ArgumentError("input tensor must be non-empty", "Pass some items.")
    if isinstance(q, Tensor) and interpolation != "linear":  # the result is a step function of q
        q = q.detach()
    return ops.quantiles(input, q, dim, keepdim, interpolation=interpolation, skips_nan=op != "quantile")


COMPOSED = (Composed(nanquantile, is_method=True, out=True), Composed(quantile, is_method=True, out=True))
