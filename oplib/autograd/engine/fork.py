"""The state of the engine in a child process made by ``os.fork``."""

from __future__ import annotations

from oplib.modes import modes
from oplib.tensor.devices import forked

from . import run

must_reset = False


def check() -> None:
    """Resets the engine at its first use in a forked child.

    If JAX had run in the parent, whose threads do not exist in the child, JAX would hang: it raises
    AutogradError.
    """
    if must_reset:
        _renew()


def child_atfork() -> None:
    """Marks the engine of a child, so that its next use resets it."""
    global must_reset  # noqa: PLW0603  a flag of the process, set by the fork
    must_reset = True


def _renew() -> None:
    global must_reset  # noqa: PLW0603
    forked.check_process()  # raises if JAX had run in the parent; the flag stays, so every use raises
    must_reset = False
    run.reset_runs()


forked.watch_for_jax(lambda: modes.sequence_nr > 0 or run.has_run())
forked.after_fork(child_atfork)
