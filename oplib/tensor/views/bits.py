"""A frame that reads the bits of items as another dtype."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .frame import Frame, Layout, Shape, Starts


class AsDtype(Frame):
    """Shows the same bits as items of another dtype. If the item sizes differ, the last axis changes.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_from", "_to")

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape, dtype: Any, new: Any) -> AsDtype:
        """Returns the frame for a whole of this shape and dtype, whose last axis must fit."""
        return cls(in_shape, dtype, new)

    def __init__(self, in_shape: Shape, dtype: Any, new: Any) -> None:
        self.in_shape = in_shape
        self._from, self._to = dtype, new
        same = dtype.itemsize == new.itemsize
        last = () if same else (in_shape[-1] * dtype.itemsize // new.itemsize,)
        self.shape = in_shape if same else (*in_shape[:-1], *last)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return whole.view(self._to)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return part.view(self._from)

    def part_dtype(self, dtype: Any) -> Any:  # noqa: ARG002, D102
        return self._to

    def whole_dtype(self, dtype: Any) -> Any:  # noqa: ARG002, D102
        return self._from

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        old, new = self._from.itemsize, self._to.itemsize
        if old == new:
            return layout
        return (*[stride * old // new for stride in strides[:-1]], 1), offset * old // new

    def __reduce__(self) -> tuple[Any, ...]:
        return AsDtype.of, (self.in_shape, self._from, self._to)
