"""A frame that shows the same items, in row-major order, in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from jax import lax

from oplib.protocols import Values

from .frame import Frame, Layout, Merge, Shape, Starts, contiguous_strides


class Reshape(Frame):
    """Shows the items of the whole in another shape. Make a frame with :meth:`between`."""

    __slots__ = ("is_identity",)

    def __init__(self, in_shape: Shape, shape: Shape) -> None:
        self.in_shape, self.shape = in_shape, shape
        self.is_identity = in_shape == shape

    @staticmethod
    @lru_cache(maxsize=4096)
    def between(in_shape: Shape, shape: Shape) -> Reshape:
        """Returns the frame from one shape to another with the same number of items."""
        return Reshape(in_shape, shape)

    def __reduce__(self) -> Values:
        return Reshape.between, (self.in_shape, self.shape)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return lax.reshape(whole, self.shape)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return lax.reshape(part, self.in_shape)

    def merge(self, later: Frame) -> Merge | None:  # noqa: D102
        if not isinstance(later, Reshape):
            return None
        return Reshape.between(self.in_shape, later.shape), lambda own, others: own + others

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides = fit_strides(self.in_shape, layout[0], self.shape)
        return strides or contiguous_strides(self.shape), layout[1]


def can_view(in_shape: Shape, strides: Shape, shape: Shape) -> bool:
    """Returns whether torch would make a view, not a copy, of memory with these strides in another shape."""
    return not shape or fit_strides(in_shape, strides, shape) is not None


def fit_strides(in_shape: Shape, strides: Shape, shape: Shape) -> Shape | None:
    """Returns the strides of the other shape on the same memory; None if there are none.

    Axes that are contiguous with each other form a chunk. Each chunk must be split separately.
    """
    if 0 in shape or not in_shape:
        return contiguous_strides(shape)
    fitted: list[int] = []
    lengths = list(shape)
    chunk, base = 1, strides[-1]
    for axis in reversed(range(len(in_shape))):
        chunk *= in_shape[axis]
        ends = axis == 0 or (in_shape[axis - 1] != 1 and strides[axis - 1] != chunk * base)
        if not ends:
            continue
        step = 1
        while lengths and (step < chunk or lengths[-1] == 1):
            fitted.append(step * base)
            step *= lengths.pop()
        if step != chunk:
            return None
        if axis:
            chunk, base = 1, strides[axis - 1]
    return None if lengths else tuple(reversed(fitted))
