"""The random numbers of a forward, for the computation that repeats it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from oplib.tensor.random.draw_log import DrawLog


def note_draws(draw_log: DrawLog | None) -> AbstractContextManager[None]:
    """Notes the Generators that a forward draws from; None notes nothing."""
    return nullcontext() if draw_log is None else draw_log.noting()


def repeat_draws(draw_log: DrawLog | None) -> AbstractContextManager[None]:
    """Has the Generators of a forward give the same numbers again, and leaves them as they were before."""
    return nullcontext() if draw_log is None else draw_log.repeating()
