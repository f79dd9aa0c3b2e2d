"""Contexts around a region: entered for each repetition, and undone however the region ends."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any, TypeVar

from oplib.errors import ArgumentError
from oplib.modes import modes
from oplib.pytree import tree_map

Result = TypeVar("Result")

_CONTAINERS = (list, tuple, dict, OrderedDict, defaultdict, deque)
_RUNS_AGAIN = (
    "checkpoint: the function ran again in the backward pass, on the same arguments. It must find what it "
    "found in the forward: copy a list before you take items from it, and pass no iterator."
)


def copy_containers(values: Any) -> Any:
    """Returns lists and dictionaries as new ones: a region runs again, and may change those that it gets."""
    with suppress(ArgumentError):  # one that holds itself
        return tree_map(lambda item: item, values, is_leaf=lambda value: value.__class__ not in _CONTAINERS)
    return values


def run_again(region: Callable[[], Result]) -> Result:
    """Calls :func:`run_and_restore` in a backward pass. An error says that the region runs again."""
    try:
        return run_and_restore(region)
    except Exception as error:
        error.add_note(_RUNS_AGAIN)
        raise


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
