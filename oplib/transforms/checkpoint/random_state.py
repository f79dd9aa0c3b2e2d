"""The random numbers of a forward, which its repetition must draw again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from oplib.tensor.random.draw_log import DrawLog


def note_draws(draw_log: DrawLog | None) -> AbstractContextManager[None]:
    """Logs the Generators that a forward draws from; does nothing for None."""
    return nullcontext() if draw_log is None else draw_log.noting()


def repeat_draws(draw_log: DrawLog | None) -> AbstractContextManager[None]:
    """Makes the Generators of a forward give the same numbers again, and restores them afterwards."""
    return nullcontext() if draw_log is None else draw_log.repeating()
