"""The pure functions of arrays that a compiler gets."""

from __future__ import annotations

from typing import Any

from jax.extend.core import ClosedJaxpr

from oplib.autograd.array_functions.compilation import bind_jaxpr


class SegmentFunction:
    """The pure function that a compiler gets.

    Attributes:
        jaxpr: the function as a ``ClosedJaxpr``.
    """

    def __init__(self, name: str, jaxpr: ClosedJaxpr) -> None:
        self.__name__ = self.__qualname__ = name
        self.jaxpr = jaxpr

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Computes the results."""
        return tuple(bind_jaxpr(self.jaxpr)(*arrays))

    def __str__(self) -> str:
        return f"{self.__name__} = {self.jaxpr}"
