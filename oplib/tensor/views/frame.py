"""What every frame is: one step from a whole to a part of it, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Shape = tuple[int, ...]
Starts = tuple[int, ...]
"""Where the windows of a frame begin; the frame itself is the same wherever they do."""

Layout = tuple[Shape, int]
"""Strides and offset, both in items, of an array in the memory that torch would have for it."""

Merge = tuple["Frame", Callable[[Starts, Starts], Starts]]
"""One frame that does what two do, and how its starts come from theirs."""


class Frame:
    """How a part is taken out of a whole (``get``), and put back (``put``): pure functions of arrays.

    A frame is static: it knows shapes and steps, but neither arrays nor where its windows begin. These starts
    are given at each call, as Python numbers or as operands, so that a loop over places compiles once. Frames
    that do the same are the same object, which is how compiled functions are found again.

    Attributes:
        in_shape: of the whole.
        shape: of the part.
        start_count: how many starts it takes.
        is_injective: no item of the whole appears twice in the part, so the part can be written.
        is_identity: the part is the whole.
    """

    __slots__ = ("in_shape", "shape")

    in_shape: Shape
    shape: Shape
    start_count: int = 0
    is_injective: bool = True
    is_identity: bool = False

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:
        """Takes the part out of the whole."""
        raise NotImplementedError

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:
        """Returns the whole with another part in the place of its own; only if the frame is injective."""
        raise NotImplementedError

    def part_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the part of a whole of this dtype."""
        return dtype

    def whole_dtype(self, dtype: Any) -> Any:
        """Returns the dtype of the whole whose part has this dtype."""
        return dtype

    def merge(self, later: Frame) -> Merge | None:  # noqa: ARG002  what a subclass looks at
        """Returns one frame for this one and the next, if there is one."""
        return None

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002  likewise
        """Returns strides and offset of the part in the memory that torch would have for both."""
        return contiguous_strides(self.shape), layout[1]


def contiguous_strides(shape: Shape) -> Shape:
    """Returns the strides, in items, of an array laid out row by row."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))
