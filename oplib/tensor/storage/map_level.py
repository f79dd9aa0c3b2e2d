"""The maps over a batch dimension that a thread is in: what random numbers and batching rules ask about."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class MapAxis:
    """The name that ``oplib.vmap`` gives its axis in JAX: by it a rule below learns of the randomness.

    Attributes:
        randomness: ``"error"``, ``"same"`` or ``"different"``.
    """

    randomness: str


@dataclass(frozen=True, slots=True, eq=False)
class MapLevel:
    """One ``oplib.vmap`` while its function runs.

    Attributes:
        size: how many examples there are.
        randomness: whether draws raise, are the same for each example, or differ.
        index: the number of the example, a tracer of this level.
        outside: JAX's trace around the map.
        inside: the trace that the map has opened.
        first_node: the least sequence number of what is recorded in it.
    """

    size: int
    randomness: str
    index: Any
    outside: object
    inside: object
    first_node: int


class _MapLevels(threading.local):
    """The levels of whichever thread asks, the innermost last."""

    stack: tuple[MapLevel, ...] = ()


map_levels = _MapLevels()


def run_in_levels(stack: tuple[MapLevel, ...], function: Callable[..., Result], *args: Any) -> Result:
    """Calls a function as if the maps in ``stack`` were those that the thread is in."""
    before = map_levels.stack
    try:
        map_levels.stack = stack
        return function(*args)
    finally:
        map_levels.stack = before
