"""The random state of a forward, for the computation that repeats it."""

from __future__ import annotations

from collections.abc import Generator as Iterator
from contextlib import contextmanager
from typing import Any

from oplib.tensor import default_generator

State = tuple[int, Any, int]


def read_random_state() -> State:
    """Returns the state of the global Generator."""
    return default_generator.get_state()


@contextmanager
def random_state(state: State | None) -> Iterator[None]:
    """Goes back to a state of the global Generator for a while; None leaves it alone.

    Inside a trace the Generator cannot move, so it is where it was, and is not touched.
    """
    before = default_generator.get_state()
    if state is None:
        yield
        return
    _go_to(state)
    try:
        yield
    finally:
        _go_to(before)


def _go_to(state: State) -> None:
    if not _is_same(state, default_generator.get_state()):
        default_generator.set_state(state)


def _is_same(one: State, other: State) -> bool:
    return (one[0], one[2]) == (other[0], other[2]) and one[1] is other[1]
