"""Importing without looking for garbage: what an import makes, stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Generator[None]:
    """Puts off the search for garbage: one through all of JAX takes a quarter of the time of our import."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
