"""Processes made by ``os.fork``: if JAX had run in the parent, JAX cannot be used in the child.

JAX's threads do not exist in the child, so its next computation would wait for them for ever. The parent
finds out at the fork whether JAX has run, so a call pays nothing for this.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from oplib.errors import AutogradError

_TASKS = Path("/proc/self/task")

_jax_had_run = False
_is_orphan = False
_signs: list[Callable[[], bool]] = []
_heirs: list[Callable[[], None]] = []


def watch_for_jax(sign: Callable[[], bool]) -> None:
    """Registers a function that tells whether JAX has run, for systems that do not list their threads."""
    _signs.append(sign)


def after_fork(renew: Callable[[], None]) -> None:
    """Registers a function that is called in every child. :func:`is_orphan` tells it the kind of child."""
    _heirs.append(renew)


def is_orphan() -> bool:
    """Returns whether this process was forked after JAX had run in its parent."""
    return _is_orphan


def check_process() -> None:
    """Raises AutogradError in a process that was forked after JAX had run in its parent: JAX would hang."""
    if _is_orphan:
        refuse_call()


def refuse_call(*args: object, **kwargs: object) -> NoReturn:  # noqa: ARG001  replaces any call
    """Raises. It replaces every op in such a process."""
    raise AutogradError(
        "oplib: this process was forked after JAX had run in its parent. JAX's threads do not exist here, so "
        "its next computation would hang. Start processes with multiprocessing.get_context('spawn')."
    )


def _has_jax_run() -> bool:
    if any(sign() for sign in _signs):
        return True
    try:
        return any((task / "comm").read_text().startswith("tf_XLA") for task in _TASKS.iterdir())
    except OSError:  # the folder does not exist, or a thread has just ended
        return False


def _look_before_fork() -> None:
    global _jax_had_run  # noqa: PLW0603  a fact of the process, set by the fork
    _jax_had_run = _is_orphan or _has_jax_run()


def _begin_child() -> None:
    global _is_orphan  # noqa: PLW0603
    _is_orphan = _jax_had_run
    for renew in _heirs:
        renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_look_before_fork, after_in_child=_begin_child)
