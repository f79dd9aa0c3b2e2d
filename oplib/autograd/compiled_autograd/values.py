"""The values of a pass: gradients that are not computed yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Value:
    """A gradient that is not computed yet.

    Attributes:
        aval: its shape and dtype.
        number: its index among the results of the lines; -1 once these have run.
        array: the array then.
    """

    __slots__ = ("array", "aval", "number")

    array: Any

    def __init__(self, number: int, aval: Any) -> None:
        self.aval = aval
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.aval.shape


Values = Sequence[Value | None]
