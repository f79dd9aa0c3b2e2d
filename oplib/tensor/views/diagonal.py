"""A frame that shows the diagonal of two axes as the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.tensor.devices.layout import drop_names

from .frame import Frame, Layout, Shape, Starts


class Diagonal(Frame):
    """Takes the items at which two axes have the same index, or indices with a fixed distance.

    Make a frame with :meth:`of`.

    Attributes:
        offset: the index of the second axis minus the index of the first.
        first: the first axis.
        second: the second axis.
    """

    __slots__ = ("_length", "first", "offset", "second")

    def __init__(self, in_shape: Shape, offset: int, first: int, second: int) -> None:
        self.in_shape = in_shape
        self.offset, self.first, self.second = offset, first, second
        rows, columns = in_shape[first], in_shape[second]
        self._length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
        rest = [length for axis, length in enumerate(in_shape) if axis not in {first, second}]
        self.shape = (*rest, self._length)

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(in_shape: Shape, offset: int, first: int, second: int) -> Diagonal:
        """Returns the frame for these axes of a shape."""
        return Diagonal(in_shape, offset, first, second)

    def __reduce__(self) -> tuple[Any, ...]:
        return Diagonal.of, (self.in_shape, self.offset, self.first, self.second)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        rows, columns = self._indices()
        return jnp.moveaxis(drop_names(whole), (self.first, self.second), (-2, -1))[..., rows, columns]

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        rows, columns = self._indices()
        moved = jnp.moveaxis(drop_names(whole), (self.first, self.second), (-2, -1))
        written = moved.at[..., rows, columns].set(drop_names(part))
        return jnp.moveaxis(written, (-2, -1), (self.first, self.second))

    def _indices(self) -> tuple[Any, Any]:
        along = np.arange(self._length, dtype=np.int32)
        return along + max(0, -self.offset), along + max(0, self.offset)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        step = strides[self.second] if self.offset >= 0 else strides[self.first]
        offset += abs(self.offset) * step if self._length else 0
        rest = [stride for axis, stride in enumerate(strides) if axis not in {self.first, self.second}]
        return (*rest, strides[self.first] + strides[self.second]), offset
