"""Which Generators are drawn from in a stretch of a program, so that the stretch can be repeated."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

State = tuple[int, Any, int]
births = itertools.count()  # of Generators and logs, which tell their age


class _OpenLogs(threading.local):
    """The logs of whichever thread asks that are open."""

    stack: tuple[DrawLog, ...] = ()


_open_logs = _OpenLogs()


class DrawLog:
    """The Generators that are drawn from while it is open, each with its state before.

    A Generator that is younger than the log was made by the stretch itself and is left out.

    Attributes:
        states: by Generator.
    """

    def __init__(self) -> None:
        self.states: dict[Any, State] = {}
        self._birth = next(births)

    @contextmanager
    def noting(self) -> Generator[None]:
        """Opens it for this thread."""
        before = _open_logs.stack
        _open_logs.stack = (*before, self)
        try:
            yield
        finally:
            _open_logs.stack = before

    @contextmanager
    def repeating(self) -> Generator[None]:
        """Takes the Generators back to where they were for a while."""
        here = {generator: generator.get_state() for generator in self.states}
        self._go_to(self.states)
        try:
            yield
        finally:
            self._go_to(here)

    def rewind(self) -> None:
        """Takes the Generators back for good."""
        self._go_to(self.states)

    def note(self, generator: Any, birth: int, state: State) -> None:
        """Enters the state that a Generator has before it is drawn from."""
        if birth < self._birth:
            self.states.setdefault(generator, state)

    @staticmethod
    def _go_to(states: dict[Any, State]) -> None:
        for generator, state in states.items():
            generator.set_state(state)


def note_draw(generator: Any, birth: int, state: State) -> None:
    """Tells all open logs of a draw."""
    for log in _open_logs.stack:
        log.note(generator, birth, state)
