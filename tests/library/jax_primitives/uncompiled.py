"""The setting by which kernels run as plain Python, for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager

import oplib


@contextmanager
def uncompiled_kernels() -> Iterator[None]:
    """Switches ``oplib.config.compile_kernels`` off inside."""
    oplib.config.compile_kernels = False
    try:
        yield
    finally:
        oplib.config.compile_kernels = True
