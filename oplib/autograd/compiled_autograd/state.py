"""The state of compiled autograd: the installed compiler, counters, and loggers."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import jax

from oplib.autograd.engine.run import compilation
from oplib.config import config
from oplib.modes import modes

_NAME = "oplib.autograd.compiled_autograd"

log = logging.getLogger(f"{_NAME}.__compiled_autograd")
"""Gets the text of each new program at INFO."""

verbose_log = logging.getLogger(f"{_NAME}.__compiled_autograd_verbose")
"""Gets, at DEBUG, why a program is new and why a backward pass ran eagerly."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Compiler = Callable[[Any], Any]
"""Gets a pure function of arrays, and returns a callable of the same arguments."""

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counters by name. ``counters["compiled_autograd"]`` counts ``captures``, ``compiles`` and ``eager``.
``counters["compiled_autograd_eager"]`` counts the backward passes that ran eagerly, by reason."""


def current_compiler() -> Compiler | None:
    """Returns the compiler for a backward pass of this thread; None if it runs eagerly."""
    if modes.state.capture_suspended:
        return None
    if compilation.is_installed:
        return compilation.compiler
    return jax.jit if config.compiled_autograd else None


def note_eager(reason: str) -> None:
    """Counts a backward pass that a program could not serve."""
    counters["compiled_autograd"]["eager"] += 1
    counters["compiled_autograd_eager"][reason] += 1
    if snapshot_verbose_logging_enabled():
        cpp_verbose_log_fn(f"run eagerly: {reason}")


def runtime_wrapper(run_program: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Calls the function that runs a program, inside the region and with capture off."""
    state = modes.state
    before = state.in_compiled_region, state.capture_suspended
    try:
        state.in_compiled_region = state.capture_suspended = True
        return run_program(*arguments)
    finally:
        state.in_compiled_region, state.capture_suspended = before


def snapshot_verbose_logging_enabled() -> bool:
    """Returns whether the verbose logger is on now."""
    return verbose_log.isEnabledFor(logging.DEBUG)


def cpp_verbose_log_fn(msg: str) -> None:
    """Writes a message to the verbose logger. The name is torch's."""
    verbose_log.debug(msg)
