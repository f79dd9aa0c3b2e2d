"""The state of compiled autograd: the installed compiler, what the current thread does, and counters."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import jax

from oplib.autograd.engine.run import compilation
from oplib.config import config

from .loggers import cpp_verbose_log_fn, snapshot_verbose_logging_enabled

Compiler = Callable[[Any], Any]
"""Gets a pure function of arrays, and returns a callable of the same arguments."""

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counters by name. ``counters["compiled_autograd"]`` counts ``captures``, ``compiles`` and ``eager``.
``counters["compiled_autograd_eager"]`` counts the backward passes that ran eagerly, by reason."""


class _Installation:
    """The compiler of the process.

    Attributes:
        compiler: the compiler of the innermost block; None in a block of ``disable``. It counts only while
            ``compilation.is_installed``.
        verbose_sink: receives the messages of the program cache; None before a block was entered while the
            verbose logger was on.
    """

    compiler: Compiler | None = None
    verbose_sink: Callable[[str], None] | None = None


class _ThreadState(threading.local):
    """What this thread does.

    Attributes:
        in_region: whether a compiled program runs.
        is_suspended: whether capture is off, because a program runs and no block was entered inside it.
    """

    in_region: bool = False
    is_suspended: bool = False


installation = _Installation()
thread_state = _ThreadState()


def current_compiler() -> Compiler | None:
    """Returns the compiler for a backward pass of this thread; None if it runs eagerly."""
    if thread_state.is_suspended:
        return None
    if compilation.is_installed:
        return installation.compiler
    return jax.jit if config.compiled_autograd else None


def note_eager(reason: str) -> None:
    """Counts a backward pass that a program could not serve."""
    counters["compiled_autograd"]["eager"] += 1
    counters["compiled_autograd_eager"][reason] += 1
    if snapshot_verbose_logging_enabled():
        cpp_verbose_log_fn(f"run eagerly: {reason}")
