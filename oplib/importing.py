"""Imports without garbage collection, because the objects that an import creates stay."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Generator[None]:
    """Delays garbage collection: a collection through all of JAX takes a quarter of the import time of oplib.

    At the end the new objects are moved to the oldest generation. Otherwise the next new object would start a
    collection through all of them. If the user has frozen objects, this step is omitted, because unfreezing
    would also unfreeze the user's objects.
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
