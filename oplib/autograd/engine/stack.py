"""Space on Python's stack for nested backward passes."""

from __future__ import annotations

import sys
import threading

_RESERVE = 400
"""The number of frames that a run may need: the user's backward, and JAX's tracing in it."""

_STEP = 1000
"""The number of frames by which the recursion limit is raised if the reserve is used up."""

_MOST_STEPS = 30
"""The number of times that the limit is raised. More depth is probably an endless recursion."""

_changing = threading.RLock()
_steps = 0


class StackReserve:
    """Reserves stack for a nested run. The recursion limit belongs to the process, so raises are counted.

    A nested run stays in its thread, because JAX's contexts do not reach another one. So it needs space on
    the stack of this thread.
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
    except ValueError:  # the stack has fewer frames
        return False
    return True


def _change_limit(steps: int) -> bool:
    global _steps  # noqa: PLW0603  the recursion limit is a global of the process
    with _changing:
        if _steps + steps > _MOST_STEPS:
            return False
        _steps += steps
        sys.setrecursionlimit(sys.getrecursionlimit() + steps * _STEP)
        return True
