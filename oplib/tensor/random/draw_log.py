"""Draw logs: the Generators that a part of a program draws from, so that the part can be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from jax.extend.core import get_opaque_trace_state

from oplib.modes import modes

State = tuple[int, Any, int]
births = itertools.count()  # numbers Generators and logs by age


class DrawLog:
    """The Generators that are drawn from while the log is open, with their states before.

    A Generator younger than the log was made by the logged part, and is left out.

    Attributes:
        states: the first state of each Generator.
    """

    def __init__(self) -> None:
        self.states: dict[Any, State] = {}
        self._birth = next(births)

    @contextmanager
    def noting(self) -> Generator[None]:
        """Opens the log for this thread."""
        state = modes.state
        before = state.draw_logs
        try:
            state.draw_logs = (*before, self)
            yield
        finally:
            state.draw_logs = before

    @contextmanager
    def repeating(self) -> Generator[None]:
        """Restores the logged states for a block, which may be traced later than the logged part."""
        here = {generator: (generator.get_state(), generator._trace) for generator in self.states}
        now = get_opaque_trace_state()
        try:
            for generator, state in self.states.items():
                generator._trace = now
                generator.set_state(state)
            yield
        finally:
            for generator, (state, trace) in here.items():
                generator.set_state(state)
                generator._trace = trace

    def rewind(self) -> None:
        """Restores the logged states permanently."""
        for generator, state in self.states.items():
            generator.set_state(state)

    def note(self, generator: Any, birth: int, state: State) -> None:
        """Stores the state of a Generator before its first draw."""
        if birth < self._birth:
            self.states.setdefault(generator, state)


def note_draw(generator: Any, birth: int, state: State) -> None:
    """Notes a draw in all open logs."""
    for log in modes.state.draw_logs:
        log.note(generator, birth, state)
