"""A watch on static arguments: one that changes at every call makes the op compile at every call."""

from __future__ import annotations

import threading

from oplib.errors import CompilationWarning
from oplib.library.arguments.layout import Fixed, Layout
from oplib.tracebacks import warn_user

LIMIT = 8


class StaticWatch:
    """Counts the values of each static number of an op, and warns once at the eighth value.

    Args:
        op: the name of the op.
    """

    __slots__ = ("_counting", "_op", "_values", "_warned")

    def __init__(self, op: str) -> None:
        self._op = op
        self._values: dict[str, set[object]] = {}
        self._warned: set[str] = set()
        self._counting = threading.RLock()

    def note(self, layout: Layout) -> None:
        """Notes the static arguments of a new specialization.

        Warns:
            CompilationWarning: an argument has just taken its eighth value; issued once per argument.
        """
        for argument, entry in zip(layout.schema.arguments, layout.entries, strict=True):
            if isinstance(entry, Fixed) and isinstance(entry.value, (int, float, complex)):
                self._count(argument.name, entry.key)

    def _count(self, name: str, value: object) -> None:
        with self._counting:
            if name in self._warned:
                return
            values = self._values.setdefault(name, set())
            values.add(value)
            if len(values) < LIMIT:
                return
            self._warned.add(name)
            del self._values[name]
        warn_user(
            f"{self._op}: static argument '{name}' has taken {LIMIT} values, and the op compiled anew for "
            f"each. If it changes often, declare it an operand: custom_op(..., operand=('{name}',)).",
            CompilationWarning,
        )
