"""The dims that users pass to ops: checked, and counted from the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.errors import ArgumentError, DimensionError


def name_indices(length: int, *, low: int | None = None) -> str:
    """Returns a sentence with the valid positions of an axis, for the end of an error.

    Args:
        length: the length of the axis.
        low: the lowest valid position; by default positions may also be counted from the end.
    """
    if not length:
        return "The tensor is empty there: index only axes whose size is not 0."
    return f"Give one from {-length if low is None else low} to {length - 1}."


def find_dim(ndim: int, dim: int) -> int:
    """Returns a dim as an axis number counted from the start.

    Raises:
        DimensionError: the dim does not exist.
    """
    count = max(ndim, 1)  # a tensor without axes accepts 0 and -1, as in torch
    if not -count <= dim < count:
        raise DimensionError(
            f"dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})",
            "Count dims from 0, or from the end from -1.",
        )
    return dim + count if dim < 0 else dim


def find_dims(array: Any, dims: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the axes of a reduction; None and an empty list mean all axes.

    Raises:
        DimensionError: a dim does not exist.
        ArgumentError: a dim occurs twice.
    """
    axes = tuple(find_dim(array.ndim, dim) for dim in dims or ())
    if len(set(axes)) < len(axes):
        raise ArgumentError("a dim appears multiple times in the list of dims", "Name each once.")
    return axes if axes and array.ndim else tuple(range(array.ndim))
