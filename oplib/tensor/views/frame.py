"""The base class of frames: functions that take a part out of a whole, and put it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from oplib.protocols import Values
from oplib.tensor.storage.storage import contiguous_strides

Shape = tuple[int, ...]
Starts = tuple[int, ...]
"""The starts of the windows of a frame. They are not part of the frame."""

Layout = tuple[Shape, int]
"""The strides and offset, in items, of an array in the memory that torch would use."""

Merge = tuple["Frame", Callable[[Starts, Starts], Starts]]
"""One frame that replaces two, and a function that combines their starts."""


class Frame:
    """Takes a part out of a whole (``get``), and puts one back (``put``). Both are pure functions of arrays.

    A frame is static: it knows shapes and steps, but not arrays or the starts of its windows. Each call
    receives the starts, as Python numbers or as operands, so that a loop over starts compiles once. Equal
    frames are the same object, so that compiled functions are found again.

    Attributes:
        in_shape: the shape of the whole.
        shape: the shape of the part.
        start_count: the number of starts.
        is_injective: whether each item of the whole appears at most once in the part, so that the part can be
            written.
        is_identity: whether the part is the whole.
    """

    __slots__ = ("in_shape", "shape")

    in_shape: Shape
    shape: Shape
    start_count: int = 0
    is_injective: bool = True
    is_identity: bool = False

    def invert(self) -> Frame | None:
        """Returns the frame that shows the whole in the part; None if the part does not show all of it."""
        return self if self.is_identity else None

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:
        """Takes the part out of the whole."""
        raise NotImplementedError

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:
        """Returns the whole with its part replaced. The frame must be injective."""
        raise NotImplementedError

    def part_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the part for a whole of this dtype."""
        return dtype

    def whole_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the whole for a part of this dtype."""
        return dtype

    def merge(self, later: Frame) -> Merge | None:  # noqa: ARG002  for subclasses
        """Returns one frame that replaces this one and the next, if such a frame exists."""
        return None

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002  for subclasses
        """Returns the strides and offset of the part in the memory that torch would use for both."""
        return contiguous_strides(self.shape), layout[1]


class SharedFrame(Frame):
    """A frame that :meth:`of` makes of the arguments of its class."""

    __slots__ = ("_arguments",)

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, *arguments: Any, **options: Any) -> Self:
        """Returns the frame of these arguments. Equal ones give the same object."""
        made = cls(*arguments, **options)
        made._arguments = arguments, options
        return made

    def __reduce__(self) -> Values:
        arguments, options = self._arguments
        return partial(type(self).of, **options), arguments


def find_positions(shape: Shape, layout: Layout) -> np.ndarray[Any, Any]:
    """Returns the position in memory of each item."""
    strides, offset = layout
    indices = np.full(shape, offset, np.int64)
    for axis, (length, stride) in enumerate(zip(shape, strides, strict=True)):
        along = np.arange(length) * stride
        indices += along.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return indices
