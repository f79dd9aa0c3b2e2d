"""The ``oplib.vmap`` levels of a thread, which random draws and batching rules read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from oplib.frozen import frozen
from oplib.modes import modes

Result = TypeVar("Result")


@frozen
class MapAxis:
    """The name of ``oplib.vmap``'s axis in JAX. A batching rule reads the randomness from it.

    Attributes:
        randomness: ``"error"``, ``"same"`` or ``"different"``.
    """

    randomness: str


@dataclass(frozen=True, slots=True, eq=False)
class MapLevel:
    """One ``oplib.vmap`` while its function runs.

    Attributes:
        size: the number of examples.
        randomness: whether draws raise, are equal for all examples, or differ.
        index: the number of the example, a tracer of this level.
        outside: JAX's trace around the map.
        inside: the trace that the map has opened.
        first_node: the lowest sequence number of nodes recorded in the map.
    """

    size: int
    randomness: str
    index: Any
    outside: object
    inside: object
    first_node: int


def run_in_levels(stack: tuple[MapLevel, ...], function: Callable[..., Result], *args: Any) -> Result:
    """Calls a function as if the thread were in the maps of ``stack``."""
    state = modes.state
    before = state.map_levels
    try:
        state.map_levels = stack
        return function(*args)
    finally:
        state.map_levels = before
