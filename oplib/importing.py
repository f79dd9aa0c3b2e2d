"""Importing without looking for garbage: what an import makes, stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Generator[None]:
    """Puts off the search for garbage: one through all of JAX takes a quarter of the time of our import.

    What was made meanwhile counts as old when it ends, or the next object made would set off a search through
    all of it. Where somebody has frozen objects, that search is put up with: to thaw is to thaw theirs too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
