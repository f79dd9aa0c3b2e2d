"""What becomes of the engine in a child process made by ``os.fork``."""

from __future__ import annotations

import os

from oplib.errors import AutogradError
from oplib.modes import modes

from .run import reset

_must_reset = False
_parent_had_run = False


def check() -> None:
    """Renews the engine at its first use in a forked child, and raises where JAX had run in the parent.

    Raises:
        AutogradError: JAX's threads did not survive the fork; its next computation would hang for ever.
    """
    global _must_reset, _parent_had_run  # noqa: PLW0603  a flag of the process, set by the fork itself
    if _must_reset:
        _must_reset = False
        _parent_had_run = reset() or modes.sequence_nr > 0
    if _parent_had_run:
        raise AutogradError(
            "backward: this process was forked after JAX had run in its parent. JAX's threads do not exist "
            "here, so its next computation would hang. Start processes with "
            "multiprocessing.get_context('spawn')."
        )


def child_atfork() -> None:
    """Marks the engine of a child as one to renew before its next use."""
    global _must_reset  # noqa: PLW0603
    _must_reset = True


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=child_atfork)
