"""Frames that take items by their indices along some axes: the diagonal of two, and windows of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from oplib.protocols import Values
from oplib.tensor.devices.layout import drop_names

from .frame import Layout, Shape, SharedFrame, Starts


class _Indexed(SharedFrame):
    """Takes items at indices along some axes.

    Args:
        in_shape: the shape of the whole.
        axes: the axes along which the items are taken.
        order: for each axis of the part, its place among the other axes of the whole and then those of the
            indices.
        sizes: the shape of the indices.
    """

    __slots__ = ("_order", "_whole_order")

    def __init__(self, in_shape: Shape, axes: Shape, order: Sequence[int], sizes: Shape) -> None:
        others = [axis for axis in range(len(in_shape)) if axis not in axes]
        lengths = (*[in_shape[axis] for axis in others], *sizes)
        self.in_shape, self.shape = in_shape, tuple([lengths[place] for place in order])
        self._whole_order, self._order = (*others, *axes), tuple(order)

    def _indices(self) -> Values:
        """Returns for each of the axes the indices along it."""
        raise NotImplementedError

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002  described in Frame
        taken = lax.transpose(drop_names(whole), self._whole_order)[(..., *self._indices())]
        return lax.transpose(taken, self._order)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002
        moved = lax.transpose(drop_names(whole), self._whole_order)
        items = lax.transpose(drop_names(part), _invert(self._order))
        filled = moved.at[(..., *self._indices())].set(items, unique_indices=True)
        return lax.transpose(filled, _invert(self._whole_order))


def _invert(order: Shape) -> Shape:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


class Diagonal(_Indexed):
    """Takes the items at which two axes have the same index, or indices with a fixed distance, as last axis.

    Attributes:
        offset: the index of the second axis minus the index of the first.
        first: the first axis.
        second: the second axis.
    """

    __slots__ = ("first", "offset", "second")

    def __init__(self, in_shape: Shape, offset: int, first: int, second: int) -> None:
        self.offset, self.first, self.second = offset, first, second
        rows, columns = in_shape[first], in_shape[second]
        length = max(0, min(rows + min(0, offset), columns - max(0, offset)))
        super().__init__(in_shape, (first, second), range(len(in_shape) - 1), (length,))

    def _indices(self) -> Values:
        along = np.arange(self.shape[-1], dtype=np.int32)  # XLA writes twice as fast at constant indices
        return along + max(0, -self.offset), along + max(0, self.offset)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        step = strides[self.second] if self.offset >= 0 else strides[self.first]
        offset += abs(self.offset) * step if self.shape[-1] else 0
        rest = [stride for axis, stride in enumerate(strides) if axis not in {self.first, self.second}]
        return (*rest, strides[self.first] + strides[self.second]), offset


class Sliding(_Indexed):
    """Shows the windows of an axis, with one size and step, along a new last axis.

    Args:
        in_shape: the shape of the whole.
        axis: the axis.
        size: the number of items of a window.
        step: from the start of a window to that of the next one.
    """

    __slots__ = ("axis", "is_injective", "step")

    def __init__(self, in_shape: Shape, axis: int, size: int, step: int) -> None:
        self.axis, self.step = axis, step
        count, last = (in_shape[axis] - size) // step + 1, len(in_shape) - 1
        order = [*range(axis), last, *range(axis, last), last + 1]
        super().__init__(in_shape, (axis,), order, (count, size))
        self.is_injective = size <= step or count < 2

    def _indices(self) -> Values:
        shape = (self.shape[self.axis], self.shape[-1])  # as constants they could be larger than the whole
        starts = lax.broadcasted_iota(np.int32, shape, 0) * np.int32(self.step)
        return (starts + lax.broadcasted_iota(np.int32, shape, 1),)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        own = strides[self.axis]
        return (*strides[: self.axis], own * self.step, *strides[self.axis + 1 :], own), offset
