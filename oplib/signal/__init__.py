"""Signals, under torch's path: the windows of :mod:`oplib.signal.windows`."""

from . import windows

__all__ = ["windows"]
