"""The record of a row, and the decorator that adds one. See the docstring of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax

from oplib import Tensor

from .kinds import Rules, Square

Op = Callable[..., Any]
Program = Callable[[Tensor], Tensor]
Code = Callable[[Tensor, Op], Tensor]
journal: list[Any] = []


def clear() -> None:
    """Clears the journal, in which rows note their effects."""
    journal.clear()


def read_events() -> list[Any]:
    """Returns which effects the journal holds, without their number.

    In a program Python's effects happen while it is traced, and JAX may trace more than once.
    """
    return sorted(set(journal))


def drop(_: Any) -> list[Any]:
    """Returns the effects of cells that have none."""
    return []


# J.3: effects of Python happen while a program is traced, and not at its later calls.
WHILE_TRACED: dict[str, Callable[[Any], Any]] = {"later call": drop}


@dataclass(frozen=True, eq=False)
class Row:
    """One row.

    The keys of the four mappings say for which cells they hold: a column, a tag of columns, a kind of op,
    several of them joined by " & ", or "*" for each cell. The first that fits counts.

    Attributes:
        name: says what the row shows.
        run: the code, a function of a Tensor with two floats and of the op.
        rules: what the op computes.
        around: a block in which the cell runs.
        before: sets the effects back.
        after: reads the effects. None: the row has none.
        instead: for cells that a ruling excepts, code that gives what they give, in ``nothing``'s terms.
        effects: for cells that a ruling excepts, a function of the effects op by op that gives theirs.
        refuses: for cells that raise, an expression that the text of the error matches.
        known_defects: for cells that are wrong, the defect. Such a cell fails when it becomes right.
    """

    name: str
    run: Code
    rules: type[Rules] = Square
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    before: Callable[[], Any] = clear
    after: Callable[[], Any] | None = None
    instead: Mapping[str, Code] = field(default_factory=dict)
    effects: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    refuses: Mapping[str, str | None] = field(default_factory=dict)
    known_defects: Mapping[str, str] = field(default_factory=dict)

    def add_effects(self, found: dict[str, Any]) -> dict[str, Any]:
        """Adds the effects of this row to what a column has found."""
        jax.effects_barrier()
        return found | ({} if self.after is None else {"effects": self.after()})


ROWS: list[Row] = []


def row(code: Any = None, **options: Any) -> Any:
    """Adds a row. The keywords are those of :class:`Row`."""
    if code is None:
        return lambda code: row(code, **options)
    ROWS.append(Row(code.__name__.strip("_").replace("_", " "), code, **options))
    return code
