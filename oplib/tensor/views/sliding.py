"""Frames that may show an item several times: sliding windows along an axis, and torch's strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jax import lax

from oplib.tensor.devices.layout import drop_names

from .frame import Frame, Layout, Shape, Starts, contiguous_strides, find_positions
from .index_map import IndexMap


class Sliding(Frame):
    """Shows the windows of an axis, with one size and step, along a new last axis.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("axis", "is_injective", "step")

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape, axis: int, size: int, step: int) -> Sliding:
        """Returns the frame of windows of ``size`` items along an axis of a whole of this shape."""
        return cls(in_shape, axis, size, step)

    def __init__(self, in_shape: Shape, axis: int, size: int, step: int) -> None:
        self.in_shape = in_shape
        self.axis = axis
        self.step = step
        count = (in_shape[axis] - size) // step + 1
        self.shape = (*in_shape[:axis], count, *in_shape[axis + 1 :], size)
        self.is_injective = size <= step or count < 2

    def _indices(self) -> Any:
        """Returns for each window the indices of its items along the axis, ``[count, size]``."""
        shape = (self.shape[self.axis], self.shape[-1])
        steps = np.asarray(self.step, np.int32)
        return lax.broadcasted_iota(np.int32, shape, 0) * steps + lax.broadcasted_iota(np.int32, shape, 1)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        last = lax.transpose(drop_names(whole), self._order())
        taken = last[..., self._indices()]  # [others, count, size]
        order = list(range(len(self.in_shape) - 1))
        order.insert(self.axis, len(self.in_shape) - 1)
        return lax.transpose(taken, (*order, len(self.in_shape)))

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        ndim = len(self.in_shape)
        others = [axis for axis in range(ndim) if axis != self.axis]
        items = lax.transpose(drop_names(part), (*others, self.axis, ndim))
        last = lax.transpose(drop_names(whole), self._order())
        filled = last.at[..., self._indices()].set(items, unique_indices=True)
        order = list(range(ndim - 1))
        order.insert(self.axis, ndim - 1)
        return lax.transpose(filled, tuple(order))

    def _order(self) -> tuple[int, ...]:
        """Returns the order of axes with this axis last."""
        return (*(axis for axis in range(len(self.in_shape)) if axis != self.axis), self.axis)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        own = strides[self.axis]
        return (*strides[: self.axis], own * self.step, *strides[self.axis + 1 :], own), offset

    def __reduce__(self) -> tuple[Any, ...]:
        return Sliding.of, (self.in_shape, self.axis, self.shape[-1], self.step)


class Strided(IndexMap):
    """Shows items by strides and an offset, both in items of torch's memory.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_key",)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape, layout: Layout, shape: Shape, new: Layout) -> Strided | None:
        """Returns the frame for a whole with this layout; None if the whole does not show all items."""
        wanted = find_positions(shape, new)
        own = find_positions(in_shape, layout)
        if layout[0] == contiguous_strides(in_shape):
            indices = wanted - layout[1]
            fits = not wanted.size or (indices.min() >= 0 and indices.max() < own.size)
        else:
            order = np.argsort(own, axis=None, kind="stable")
            known = own.reshape(-1)[order]
            at = np.minimum(np.searchsorted(known, wanted), max(known.size - 1, 0))
            fits = not wanted.size or (known.size > 0 and bool((known[at] == wanted).all()))
            indices = order[at] if fits and known.size else at
        return cls(in_shape, layout, shape, new, indices.astype(np.int32)) if fits else None

    def __init__(
        self, in_shape: Shape, layout: Layout, shape: Shape, new: Layout, indices: np.ndarray[Any, Any]
    ) -> None:
        super().__init__(in_shape, indices)
        self._key = (in_shape, layout, shape, new)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        return self._key[3]

    def __reduce__(self) -> tuple[Any, ...]:
        return Strided.of, self._key
