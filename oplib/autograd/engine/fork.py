"""What becomes of the engine in a child process made by ``os.fork``."""

from __future__ import annotations

from oplib.modes import modes
from oplib.tensor.devices import forked

from . import run

_must_reset = False


def check() -> None:
    """Renews the engine at its first use in a forked child, and raises where JAX had run in the parent.

    Raises:
        AutogradError: JAX's threads did not survive the fork; its next computation would hang for ever.
    """
    if _must_reset:
        _renew()


def child_atfork() -> None:
    """Marks the engine of a child as one to renew before its next use."""
    global _must_reset  # noqa: PLW0603  a flag of the process, set by the fork itself
    _must_reset = True


def _renew() -> None:
    global _must_reset  # noqa: PLW0603
    forked.check_process()  # in an orphan the flag stays, and so every use raises
    _must_reset = False
    run.reset()


forked.watch_for_jax(lambda: modes.sequence_nr > 0 or run.has_run())
forked.after_fork(child_atfork)
