"""Reductions of the array API standard: without indices, over any number of axes, also over none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oplib.tensor import Tensor

from .naming import collect

FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS)
Axes = int | Sequence[int] | None


def _reduce(x: Tensor, axis: Axes, keepdims: bool, reduce: Callable[..., Tensor]) -> Tensor:
    """Calls a reduction with a tuple of axes. For none of them the items of a new axis are reduced."""
    if axis is None:
        axis = tuple(range(x.ndim))
    axes = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    return reduce(x, axes, keepdim=keepdims) if axes else reduce(x.unsqueeze(0), (0,), keepdim=False)


@_standard
def _sum(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns sums; those of small ints are of the default integer dtype."""
    return _reduce(x, axis, keepdims, partial(Tensor.sum, dtype=dtype))


@_standard
def _prod(x: Tensor, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Returns products; those of small ints are of the default integer dtype."""

    def multiply(x: Tensor, dim: tuple[int, ...], *, keepdim: bool) -> Tensor:
        for axis in dim:
            x = x.prod(axis, True, dtype=dtype)
        return x if keepdim else x.squeeze(dim)

    return _reduce(x, axis, keepdims, multiply)


@_standard
def _max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the largest items."""
    return _reduce(x, axis, keepdims, Tensor.amax)


@_standard
def _min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest items."""
    return _reduce(x, axis, keepdims, Tensor.amin)


@_standard
def _mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns means of floats."""
    return _reduce(x, axis, keepdims, Tensor.mean)


@_standard
def _std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns standard deviations; ``correction`` is subtracted from the number of items."""
    return _reduce(x, axis, keepdims, partial(Tensor.std, correction=correction))


@_standard
def _var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns variances; ``correction`` is subtracted from the number of items."""
    return _reduce(x, axis, keepdims, partial(Tensor.var, correction=correction))


@_standard
def _all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all items count as true."""
    return _reduce(x.bool(), axis, keepdims, Tensor.all)


@_standard
def _any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an item counts as true."""
    return _reduce(x.bool(), axis, keepdims, Tensor.any)


@_standard
def _count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the numbers of items that are not zero."""
    return _sum(x.bool(), axis=axis, keepdims=keepdims)
