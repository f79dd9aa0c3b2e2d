"""Shapes, parts and running sums, with the arguments of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.builtin.public_functions.registry import FUNCTIONS as OPS
from oplib.errors import ArgumentValueError, describe
from oplib.tensor import Tensor

from .naming import collect

FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS)
Axes = int | Sequence[int]


def to_tuple(axes: Axes) -> tuple[int, ...]:
    """Returns axes or a shape, of which one may be given alone, as a tuple."""
    return tuple(axes) if isinstance(axes, Sequence) else (axes,)


@_standard
def _broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Returns the Tensors, broadcast to one shape."""
    return list(OPS["broadcast_tensors"](*arrays))


@_standard
def _broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Returns the Tensor, broadcast to a shape."""
    return x.expand(tuple(shape))


@_standard
def _concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Joins Tensors along an axis; None flattens them first."""
    if axis is None:
        return OPS["cat"]([array.reshape(-1) for array in arrays], dim=0)
    return OPS["cat"](list(arrays), dim=axis)


@_standard
def _expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """Adds an axis of size 1."""
    return x.unsqueeze(axis)


@_standard
def _flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Turns the order of the items around, along some axes or all."""
    return x.flip(tuple(range(x.ndim)) if axis is None else to_tuple(axis))


@_standard
def _permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Returns the axes in another order."""
    return x.permute(tuple(axes))


@_standard
def _repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Repeats each item; without an axis those of the flat Tensor."""
    return OPS["repeat_interleave"](x, repeats, dim=axis)


@_standard
def _reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Returns the items in another shape: as a view where that is possible, unless ``copy`` decides."""
    if copy:
        x = x.clone()
    return x.view(tuple(shape)) if copy is False else x.reshape(tuple(shape))


@_standard
def _roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Moves items along axes, those at the end to the start; without an axis those of the flat Tensor."""
    if axis is None:
        return x.roll(shift)
    axes = to_tuple(axis)
    shifts = to_tuple(shift) if isinstance(shift, Sequence) else (shift,) * len(axes)
    return x.roll(shifts, axes)


@_standard
def _squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Takes axes of size 1 away.

    Raises:
        ArgumentValueError: the size of an axis is not 1.
    """
    axes = to_tuple(axis)
    if any(x.shape[dim] != 1 for dim in axes if -x.ndim <= dim < x.ndim):
        raise ArgumentValueError(
            f"squeeze: only axes of size 1 can be taken away. Got {describe(x)} and axis {axis}. Reshape it."
        )
    return x.squeeze(axes)


@_standard
def _unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the parts of a Tensor along an axis."""
    return tuple(x.unbind(axis))


@_standard
def _take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns the items at some places along an axis, which only a Tensor with one axis may leave out."""
    if axis is None and x.ndim != 1:
        raise ArgumentValueError(
            f"take: without an axis the Tensor has one dimension. Got {describe(x)}. Give axis=."
        )
    return x.index_select(0 if axis is None else axis, indices)


@_standard
def _take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the items at places of their own for each row; the other axes broadcast."""
    return OPS["take_along_dim"](x, indices, dim=axis)


@_standard
def _cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns running sums; with ``include_initial`` the first is 0."""
    axis = _find_axis("cumulative_sum", x, axis)
    return _start_with(0, x.cumsum(axis, dtype=dtype), axis, include_initial)


@_standard
def _cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Returns running products; with ``include_initial`` the first is 1."""
    axis = _find_axis("cumulative_prod", x, axis)
    return _start_with(1, x.cumprod(axis, dtype=dtype), axis, include_initial)


def _find_axis(name: str, x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ArgumentValueError(
            f"{name}: without an axis the Tensor has one dimension. Got {describe(x)}. Give axis=."
        )
    return 0 if axis is None else axis


def _start_with(value: int, x: Tensor, axis: int, is_asked: bool) -> Tensor:
    if not is_asked:
        return x
    first = list(x.shape)
    first[axis] = 1
    return OPS["cat"]([x.new_full(first, value), x], dim=axis)
