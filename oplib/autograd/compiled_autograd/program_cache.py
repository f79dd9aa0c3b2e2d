"""The known programs, by the structure of the graph, least recently used first."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from itertools import zip_longest
from operator import eq
from typing import Any

from oplib.autograd.array_functions.compilation import advise_first_nan
from oplib.autograd.array_functions.tokens import next_token
from oplib.protocols import AnyFunction

from .state import cpp_verbose_log_fn, snapshot_verbose_logging_enabled

CAPACITY = 256
_MOST_COMPARED = 32


class BackwardProgram:
    """One compiled function of a backward pass.

    Attributes:
        names: the names of the nodes, for messages.
    """

    __slots__ = ("_compiled", "_forwarded", "names")

    def __init__(
        self, names: Sequence[str], compiled: AnyFunction | None, forwarded: Sequence[int | None]
    ) -> None:
        self.names = names
        self._compiled = compiled
        # XLA would copy a result that is an argument
        self._forwarded = None if set(forwarded) == {None} else tuple(forwarded)

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Returns the results."""
        try:
            results = () if self._compiled is None else self._compiled(*inputs)
        except FloatingPointError as error:
            advise_first_nan(error)
            raise
        if self._forwarded is None:
            return results
        rest = iter(results)
        return [next(rest) if index is None else inputs[index] for index in self._forwarded]


class ProgramCache:
    """Programs by key. It keeps no object of a graph alive."""

    def __init__(self) -> None:
        self._programs: OrderedDict[Any, BackwardProgram] = OrderedDict()
        self._lock = threading.RLock()
        self._numbers = 0
        self._compilers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def find(self, key: Any) -> BackwardProgram | None:
        """Returns the program of a key, as the most recently used one."""
        program = self._programs.get(key)
        if program is not None:
            with self._lock:
                if key in self._programs:
                    self._programs.move_to_end(key)
        return program

    def add(self, key: Any, program: BackwardProgram) -> None:
        """Adds a program. It takes the place of an outdated one."""
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > CAPACITY:
                self._programs.popitem(last=False)

    def take_number(self) -> int:
        """Returns the number of the next compiled function."""
        with self._lock:
            self._numbers += 1
            return self._numbers - 1

    def token_of(self, compiler: AnyFunction) -> int:
        """Returns a number that stands for a compiler in keys. The cache does not keep the compiler alive."""
        try:
            token = self._compilers.get(compiler)
            if token is None:
                token = self._compilers.setdefault(compiler, next_token())
        except TypeError:  # it has no hash or no weak references
            return next_token()
        return token

    def clear(self) -> None:
        """Forgets all programs, and counts compiled functions from 0 again."""
        with self._lock:
            self._programs.clear()
            self._numbers = 0

    def explain_miss(self, key: Sequence[Any], names: Sequence[str]) -> None:
        """Logs why no program is known for the structure of nodes of some names."""
        if not snapshot_verbose_logging_enabled():
            return
        with self._lock:
            known = list(self._programs.items())[-_MOST_COMPARED:]
        cpp_verbose_log_fn(f"cache miss: {_explain(key, names, known)}")


def _explain(key: Sequence[Any], names: Sequence[str], known: Sequence[tuple[Any, BackwardProgram]]) -> str:
    """Returns the difference between a structure and the known one that is nearest."""
    if not known:
        return f"this is the first program. It starts at {names[0]} (NodeCall 0)."
    # the nearest has the most equal facts at its beginning
    nearest, program = max(known, key=lambda item: [*map(eq, key, item[0]), False].index(False))
    for number, (name, other) in enumerate(zip_longest(names, program.names)):
        if name != other:
            return (
                f"{name or 'the end of the graph'} (NodeCall {number}) is new. The nearest known program has "
                f"{other or 'no node'} there. Size of the key {len(key)}, of known keys "
                f"{sorted({len(key) for key, _ in known})}."
            )
    differing = [pair for pair in zip_longest(key, nearest) if pair[0] != pair[1]]
    return (
        f"the nodes are known, {len(differing)} facts differ from the nearest program: shapes, dtypes, "
        f"hooks, grads or edges. The first is {differing[0][0]!r}, it was {differing[0][1]!r}, in a graph "
        f"that starts at {names[0]} (NodeCall 0)."
    )


programs = ProgramCache()
