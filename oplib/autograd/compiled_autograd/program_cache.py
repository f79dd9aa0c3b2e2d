"""The known programs, by the structure of the graph, least recently used first."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.tokens import next_token

from .program import BackwardProgram

CAPACITY = 256
MOST_REPLACEMENTS = 8
"""The number of times that a program is made again, because Python code gave something else."""


class Entry:
    """One structure.

    Attributes:
        captured: the function that runs the program, and the program.
        expectations: the results that host steps have given, see ``Recorder``.
        names: the names of the nodes, for messages.
    """

    __slots__ = ("_replacements", "captured", "expectations", "names")

    captured: tuple[Callable[..., Any], BackwardProgram]

    def __init__(self, names: tuple[str, ...]) -> None:
        self.expectations: dict[tuple[str, int], Mask] = {}
        self.names = names
        self._replacements = -1  # the first program replaces none

    def needs_program(self) -> bool:
        """Returns whether the program must be made again."""
        return self.captured[1].is_outdated and self._replacements < MOST_REPLACEMENTS

    def set_program(
        self,
        captured: tuple[Callable[..., Any], BackwardProgram],
        expectations: dict[tuple[str, int], Mask],
    ) -> None:
        """Sets the program, and what it expects of its host steps."""
        self.captured = captured
        self.expectations = expectations
        self._replacements += 1


class ProgramCache:
    """Programs by key. It keeps no object of a graph alive."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Any, Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._numbers = 0
        self._compilers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def find(self, key: Any) -> Entry | None:
        """Returns the entry of a key, as the most recently used one."""
        found = self._entries.get(key)
        if found is not None:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
        return found

    def add(self, key: Any, entry: Entry) -> Entry:
        """Adds an entry, unless another thread has added one, and returns the one that stays."""
        with self._lock:
            found = self._entries.setdefault(key, entry)
            while len(self._entries) > CAPACITY:
                self._entries.popitem(last=False)
        return found

    def keys(self) -> list[Any]:
        """Returns the known keys."""
        with self._lock:
            return list(self._entries)

    def names(self, key: Any) -> tuple[str, ...]:
        """Returns the names of the nodes of a known structure."""
        found = self._entries.get(key)
        return () if found is None else found.names

    def take_number(self) -> int:
        """Returns the number of the next compiled function."""
        with self._lock:
            self._numbers += 1
            return self._numbers - 1

    def token_of(self, compiler: Callable[..., Any]) -> int:
        """Returns a number that stands for a compiler in keys. The cache does not keep the compiler alive."""
        try:
            found = self._compilers.get(compiler)
            if found is None:
                found = self._compilers.setdefault(compiler, next_token())
        except TypeError:  # it has no hash or no weak references
            return next_token()
        return found

    def clear(self) -> None:
        """Forgets all programs, and counts compiled functions from 0 again."""
        with self._lock:
            self._entries.clear()
            self._numbers = 0


programs = ProgramCache()
