"""Which Generators are drawn from in a stretch of a program, so that the stretch can be repeated."""

from __future__ import annotations

import itertools
import threading
from contextlib import AbstractContextManager
from typing import Any

State = tuple[int, Any, int]
births = itertools.count()  # of Generators and logs, which tell their age


class _OpenLogs(threading.local):
    """The logs of whichever thread asks that are open."""

    stack: tuple[DrawLog, ...] = ()


open_logs = _OpenLogs()


class DrawLog:
    """The Generators that are drawn from while it is open, each with its state before.

    A Generator that is younger than the log was made by the stretch itself and is left out.

    Attributes:
        states: by Generator.
    """

    def __init__(self) -> None:
        self.states: dict[Any, State] = {}
        self._birth = next(births)

    def noting(self) -> AbstractContextManager[None]:
        """Opens it for this thread."""
        return _Noting(self)

    def repeating(self) -> AbstractContextManager[None]:
        """Takes the Generators back to where they were for a while."""
        return _Repeating(self)

    def rewind(self) -> None:
        """Takes the Generators back for good."""
        go_to(self.states)

    def note(self, generator: Any, birth: int, state: State) -> None:
        """Enters the state that a Generator has before it is drawn from."""
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
    """Takes Generators back, and then to where they were."""

    def __init__(self, log: DrawLog) -> None:
        self._log = log
        self._here: dict[Any, State] = {}

    def __enter__(self) -> None:
        self._here = {generator: generator.get_state() for generator in self._log.states}
        go_to(self._log.states)

    def __exit__(self, *exc_info: object) -> None:
        go_to(self._here)


def go_to(states: dict[Any, State]) -> None:
    """Sets Generators to states."""
    for generator, state in states.items():
        generator.set_state(state)


def note_draw(generator: Any, birth: int, state: State) -> None:
    """Tells all open logs of a draw."""
    for log in open_logs.stack:
        log.note(generator, birth, state)
