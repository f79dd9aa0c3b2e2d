"""Watching static arguments: one that changes at every call makes an op compile at every call."""

from __future__ import annotations

import warnings

from oplib.errors import CompilationWarning

from .layout import Fixed, Layout
from .schema import FunctionSchema

LIMIT = 8


class StaticWatch:
    """Counts the values that each static argument of an op has taken, and warns once at the eighth.

    Args:
        op: the op's name.
        operand: arguments that are operands already.
    """

    __slots__ = ("_op", "_operand", "_values", "_warned")

    def __init__(self, op: str, operand: frozenset[str]) -> None:
        self._op = op
        self._operand = operand
        self._values: dict[str, set[object]] = {}
        self._warned: set[str] = set()

    def note(self, schema: FunctionSchema, layout: Layout) -> None:
        """Notes the static arguments of a new specialization."""
        for argument, entry in zip(schema.arguments, layout.entries, strict=True):
            if isinstance(entry, Fixed) and argument.name not in self._warned:
                values = self._values.setdefault(argument.name, set())
                values.add(entry.key)
                if len(values) >= LIMIT and isinstance(entry.value, (int, float, complex)):
                    self._warn(argument.name)

    def _warn(self, name: str) -> None:
        self._warned.add(name)
        del self._values[name]
        warnings.warn(
            f"{self._op}: static argument '{name}' has taken {LIMIT} values, and the op compiled anew for "
            "each. "
            f"If it changes often, declare it an operand: custom_op(..., operand=('{name}',)).",
            CompilationWarning,
            stacklevel=2,
        )
