"""Draw logs: the Generators that a part of a program draws from, so that the part can be repeated."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from typing import Any

State = tuple[int, Any, int]
births = itertools.count()  # numbers Generators and logs by age


class _OpenLogs(threading.local):
    """The open logs of the current thread."""

    stack: tuple[DrawLog, ...] = ()


open_logs = _OpenLogs()


class DrawLog:
    """The Generators that are drawn from while the log is open, with their states before.

    A Generator younger than the log was made by the logged part, and is left out.

    Attributes:
        states: the first state of each Generator.
    """

    def __init__(self) -> None:
        self.states: dict[Any, State] = {}
        self._birth = next(births)

    def noting(self) -> AbstractContextManager[None]:
        """Opens the log for this thread."""
        return _Noting(self)

    def repeating(self) -> AbstractContextManager[None]:
        """Restores the logged states for a block."""
        return _Repeating(self)

    def rewind(self) -> None:
        """Restores the logged states permanently."""
        go_to(self.states)

    def note(self, generator: Any, birth: int, state: State) -> None:
        """Stores the state of a Generator before its first draw."""
        if birth < self._birth:
            self.states.setdefault(generator, state)


class _Noting(AbstractContextManager[None]):
    """Keeps a log open."""

    def __init__(self, log: DrawLog) -> None:
        self._log = log
        self._before: tuple[DrawLog, ...] = ()

    def __enter__(self) -> None:
        self._before = before = open_logs.stack
        open_logs.stack = (*before, self._log)

    def __exit__(self, *exc_info: object) -> None:
        open_logs.stack = self._before


class _Repeating(AbstractContextManager[None]):
    """Restores logged states, and at the end of a block the later ones."""

    def __init__(self, log: DrawLog) -> None:
        self._log = log
        self._here: dict[Any, State] = {}

    def __enter__(self) -> None:
        self._here = {generator: generator.get_state() for generator in self._log.states}
        go_to(self._log.states)

    def __exit__(self, *exc_info: object) -> None:
        go_to(self._here)


def go_to(states: dict[Any, State]) -> None:
    """Sets the states of Generators."""
    for generator, state in states.items():
        generator.set_state(state)


def note_draw(generator: Any, birth: int, state: State) -> None:
    """Notes a draw in all open logs."""
    for log in open_logs.stack:
        log.note(generator, birth, state)
