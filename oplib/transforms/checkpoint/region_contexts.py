"""Contexts around a region: entered for each repetition, and undone however the region ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

from oplib.modes import modes

Result = TypeVar("Result")


def run_and_restore(region: Callable[[], Result]) -> Result:
    """Calls a function that enters contexts, and restores the thread's state afterwards.

    Contexts alone do not guarantee this: an interrupt may come before ``__exit__`` begins.
    """
    state = modes.state
    grad_mode, watchers, autocast = state.grad_enabled, state.watchers, state.autocast
    in_trace, constant_in = state.in_trace, state.constant_in
    pairs, observers, logs = state.hook_pairs, state.observers, state.draw_logs
    try:
        return region()
    finally:
        state.grad_enabled, state.watchers, state.autocast = grad_mode, watchers, autocast
        state.in_trace, state.constant_in = in_trace, constant_in
        state.hook_pairs, state.observers, state.draw_logs = pairs, observers, logs


class RepeatedContext(threading.local):
    """A context manager that makes and enters a new context each time.

    Each thread has its own state, because threads may run one graph backward at the same time.

    Args:
        make: makes the context.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._exits = ExitStack()

    def __enter__(self) -> None:
        self._exits.enter_context(self._make())

    def __exit__(self, *exc_info: object) -> None:
        self._exits.close()
