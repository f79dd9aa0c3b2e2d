"""Restoring the state of a thread that the contexts around a region change, however the region ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oplib.autograd.saved.hooks import hook_stack
from oplib.library.objects.observers import observer_stack
from oplib.modes import modes
from oplib.tensor.random.draw_log import open_logs

Result = TypeVar("Result")


def run_and_restore(region: Callable[[], Result]) -> Result:
    """Calls a function that enters contexts, and restores the thread's state afterwards.

    Contexts alone do not guarantee this: an interrupt may come before ``__exit__`` begins.
    """
    state = modes.state
    grad_mode, watchers, autocast = state.grad_enabled, state.watchers, state.autocast
    pairs, observers, logs = hook_stack.pairs, observer_stack.observers, open_logs.stack
    try:
        return region()
    finally:
        state.grad_enabled, state.watchers, state.autocast = grad_mode, watchers, autocast
        hook_stack.pairs, observer_stack.observers, open_logs.stack = pairs, observers, logs
