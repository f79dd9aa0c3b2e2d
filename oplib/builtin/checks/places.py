# ruff: noqa: A002  the parameters are torch's
"""Checks of positions before a call: compiled code does not raise, but clamps or drops invalid positions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.builtin.kernels.dims import name_places
from oplib.builtin.kernels.interpolation import check_spatial
from oplib.errors import ArgumentError, DimensionError, describe
from oplib.tensor import Tensor

from .matrices import CHECKED_RESULTS
from .shares import check_shares
from .stored_numbers import check_fits

Function = Callable[..., Any]

# For these functions torch counts negative positions from the end; for others it refuses them.
_FROM_THE_END = frozenset({"index_fill", "put", "take", "take_along_dim"})


def check_index_range(op: str, index: Any, length: int, *, low: int = 0, but: int | None = None) -> None:
    """Raises if a tensor contains a number that is no position.

    Args:
        op: the op's name, for the error.
        index: a tensor or array of positions; traced values and values that are no integers are not checked.
        length: the number of positions.
        low: the lowest valid number.
        but: a further valid number.

    Raises:
        DimensionError: the tensor contains such a number.
    """
    array = index._storage.array if isinstance(index, Tensor) else index
    if (
        isinstance(array, Tracer)
        or getattr(array, "dtype", np.dtype(bool)).kind not in "iu"
        or not array.size
    ):
        return
    values = np.asarray(array)
    if values.min() >= low and values.max() < length:  # a fifth of the cost of finding the wrong number
        return
    wrong = values[((values < low) | (values >= length)) & (values != (low if but is None else but))]
    if wrong.size:
        raise DimensionError(
            f"{op}: index {wrong.flat[0]} is out of bounds for a dimension of size {length}. Got "
            f"{describe(array)}. {name_places(length, low=low)}"
        )


def _along(function: Function, name: str) -> Function:
    @functools.wraps(function)
    def checked(input: Any, dim: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        shape = input.shape or (1,)  # a tensor without axes has one position
        if isinstance(dim, int) and -len(shape) <= dim < len(shape):
            length = shape[dim]
            check_index_range(name, index, length, low=-length if name in _FROM_THE_END else 0)
        if name == "index_fill":
            check_fits(name, input, args[0] if args else kwargs.get("value"))
        return function(input, dim, index, *args, **kwargs)

    return checked


def _flat(function: Function, name: str) -> Function:
    @functools.wraps(function)
    def checked(input: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        length = math.prod(input.shape)
        check_index_range(name, index, length, low=-length)
        return function(input, index, *args, **kwargs)

    return checked


def _along_dim(function: Function, name: str) -> Function:
    @functools.wraps(function)
    def checked(input: Any, indices: Any, dim: Any = None) -> Any:
        if dim is None or (isinstance(dim, int) and -input.ndim <= dim < input.ndim):
            length = math.prod(input.shape) if dim is None else input.shape[dim]
            check_index_range(name, indices, length, low=-length)
        return function(input, indices, dim)

    return checked


def _of_classes(function: Function, name: str) -> Function:
    @functools.wraps(function)
    def checked(
        input: Any, target: Any, weight: Any = None, *, ignore_index: int = -100, **options: Any
    ) -> Any:
        if input.ndim:
            check_index_range(name, target, input.shape[1 if input.ndim > 1 else 0], but=ignore_index)
        return function(input, target, weight, ignore_index=ignore_index, **options)

    return checked


def _of_labels(function: Function, name: str) -> Function:
    """Checks several labels per row, in which -1 marks the end of the row."""
    low = -1 if name == "multilabel_margin_loss" else 0

    @functools.wraps(function)
    def checked(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if input.ndim:
            check_index_range(name, target, input.shape[-1], low=low)
        return function(input, target, *args, **kwargs)

    return checked


def _masked(function: Function, name: str) -> Function:
    """Checks that masked_scatter has a source item per position; counts only if the source may be short."""

    @functools.wraps(function)
    def checked(input: Any, mask: Any, source: Any) -> Any:
        array = mask._storage.array if isinstance(mask, Tensor) else mask
        is_known = getattr(array, "dtype", None) == np.dtype(bool) and not isinstance(array, Tracer)
        if is_known and array.shape == input.shape and math.prod(source.shape) < math.prod(input.shape):
            count = int(np.asarray(array).sum())
            if count > math.prod(source.shape):
                raise ArgumentError(
                    f"{name}: the source has too few items. Got {describe(source)} "
                    f"for {count} positions. Pass {count} items."
                )
        return function(input, mask, source)

    return checked


CHECKED: dict[str, Callable[[Function, str], Function]] = {
    **dict.fromkeys(("gather", "index_select", "scatter", "scatter_add", "scatter_reduce"), _along),
    **dict.fromkeys(("index_add", "index_copy", "index_fill", "index_reduce"), _along),
    **dict.fromkeys(("take", "put"), _flat),
    "masked_scatter": _masked,
    "take_along_dim": _along_dim,
    **dict.fromkeys(("nll_loss", "cross_entropy"), _of_classes),
    **dict.fromkeys(("multi_margin_loss", "multilabel_margin_loss"), _of_labels),
    "binary_cross_entropy": check_shares,
    "interpolate": check_spatial,
    **CHECKED_RESULTS,
}
