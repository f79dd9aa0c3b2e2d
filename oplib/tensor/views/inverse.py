"""The inverse of a frame that shows every item once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .frame import Frame


class Inverse(Frame):
    """Shows the whole of another frame.

    Args:
        frame: a frame that shows every item of its whole once, and has no starts.
    """

    __slots__ = ("frame",)

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.in_shape, self.shape = frame.shape, frame.in_shape

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return self.frame.put(whole, whole, ())

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return self.frame.get(part, ())
