"""What programs of forward mode need, on torch and on oplib: a level, and duals in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

X, T = [1.0, 2.0], [3.0, 4.0]


class Level:
    """What a program in an open dual level needs.

    Args:
        lib: torch or oplib.
    """

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.ad = lib.autograd.forward_ad

    def dual(self, *, grad: bool = False, tangent_grad: bool = False) -> Any:
        x = self.lib.tensor(X, requires_grad=grad)
        return self.ad.make_dual(x, self.lib.tensor(T, requires_grad=tangent_grad))

    def read(self, *tensors: Any) -> list[Any]:
        return [self.ad.unpack_dual(tensor) for tensor in tensors]

    def zeros(self, *sizes: int) -> Any:
        return self.lib.zeros(*sizes)


def in_level(program: Callable[[Level], Any]) -> Callable[[Any], Any]:
    def run(lib: Any) -> Any:
        level = Level(lib)
        with level.ad.dual_level():
            return program(level)

    return run
