"""Restoring the state of a thread that the contexts around a region change, however the region ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oplib.modes import modes

Result = TypeVar("Result")


def run_and_restore(region: Callable[[], Result]) -> Result:
    """Calls a function that enters contexts, and restores the thread's state afterwards.

    Contexts alone do not guarantee this: an interrupt may come before ``__exit__`` begins.
    """
    state = modes.state
    grad_mode, watchers, autocast = state.grad_enabled, state.watchers, state.autocast
    pairs, observers, logs = state.hook_pairs, state.observers, state.draw_logs
    try:
        return region()
    finally:
        state.grad_enabled, state.watchers, state.autocast = grad_mode, watchers, autocast
        state.hook_pairs, state.observers, state.draw_logs = pairs, observers, logs
