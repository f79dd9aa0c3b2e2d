"""The two loggers of compiled autograd: the text of new programs, and why a program is new."""

from __future__ import annotations

import logging

_NAME = "oplib.autograd.compiled_autograd"

log = logging.getLogger(f"{_NAME}.__compiled_autograd")
"""Gets the text of each new program at INFO."""

verbose_log = logging.getLogger(f"{_NAME}.__compiled_autograd_verbose")
"""Gets, at DEBUG, why a program is new and why a backward pass ran eagerly."""


def snapshot_verbose_logging_enabled() -> bool:
    """Returns whether the verbose logger is on now."""
    return verbose_log.isEnabledFor(logging.DEBUG)


def cpp_verbose_log_fn(msg: str) -> None:
    """Writes a message to the verbose logger. The name is torch's."""
    verbose_log.debug(msg)
