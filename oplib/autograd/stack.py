"""Room on Python's stack for a backward inside a backward inside a backward."""

from __future__ import annotations

import sys
import threading

_FRAMES_OF_A_LEVEL = 120
"""More frames than lie between a node and the nodes of a run that it starts, JAX's dispatch included."""

_DEEPEST = 1000
"""Levels that are given room; beyond, Python's own limit ends what is probably an endless recursion."""

_changing = threading.Lock()
_levels = 0


class StackRoom:
    """Raises the recursion limit while a nested run is active; the limit is the process's, so it is counted.

    A nested run stays in its thread (JAX's contexts do not reach another one), so the room must come from the
    thread's own stack.
    """

    __slots__ = ("_given",)

    def __enter__(self) -> None:
        self._given = _change_limit(1)

    def __exit__(self, *exc_info: object) -> None:
        if self._given:
            _change_limit(-1)


def _change_limit(levels: int) -> bool:
    global _levels  # noqa: PLW0603  the recursion limit is a global of the process itself
    with _changing:
        if _levels + levels > _DEEPEST:
            return False
        _levels += levels
        sys.setrecursionlimit(sys.getrecursionlimit() + levels * _FRAMES_OF_A_LEVEL)
        return True
