"""Room on Python's stack for a backward inside a backward inside a backward."""

from __future__ import annotations

import sys
import threading

_RESERVE = 400
"""Frames that a run may need below it: what a user's backward calls, JAX's tracing included."""

_STEP = 1000
"""Frames by which the limit is raised where the headroom is used up."""

_MOST_STEPS = 30
"""How often that is done; beyond, Python's own limit ends what is probably an endless recursion."""

_changing = threading.Lock()
_steps = 0


class StackReserve:
    """Keeps room below a nested run; the recursion limit is the process's, so what is given is counted.

    A nested run stays in its thread (JAX's contexts do not reach another one), so the room must come from the
    thread's own stack.
    """

    __slots__ = ("_given",)

    def __enter__(self) -> None:
        self._given = _is_nearly_full() and _change_limit(1)

    def __exit__(self, *exc_info: object) -> None:
        if self._given:
            _change_limit(-1)


def _is_nearly_full() -> bool:
    try:
        sys._getframe(sys.getrecursionlimit() - _RESERVE)
    except ValueError:  # the stack is not as deep as that
        return False
    return True


def _change_limit(steps: int) -> bool:
    global _steps  # noqa: PLW0603  the recursion limit is a global of the process itself
    with _changing:
        if _steps + steps > _MOST_STEPS:
            return False
        _steps += steps
        sys.setrecursionlimit(sys.getrecursionlimit() + steps * _STEP)
        return True
