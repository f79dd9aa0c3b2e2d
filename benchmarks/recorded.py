"""The recorded ratios, and which rows of a run are worse than theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .results import FOLDER
from .table import Row

ALLOWED = 1.15


def read_recorded(folder: Path = FOLDER) -> dict[tuple[str, str], float]:
    """Returns the latest recorded figure of each row, by its subject and its control."""
    figures: dict[tuple[str, str], float] = {}
    for path in sorted(folder.glob("*.json")):  # the names begin with the date
        for row in json.loads(path.read_text())["rows"]:
            if row["measured"] is not None:
                figures[row["what"], row["control"]] = row["measured"]
    return figures


def find_worse(rows: Iterable[Row], recorded: Mapping[tuple[str, str], float]) -> list[Row]:
    """Returns the rows whose figure is more than ``ALLOWED`` times the recorded one."""
    return [
        row
        for row in rows
        if row.figure is not None
        if row.figure > ALLOWED * recorded.get((row.what, row.control), float("inf"))
    ]


def find_worse_twice(
    groups: Mapping[str, list[Row]],
    measure: Callable[[str], Iterable[Row]],
    recorded: Mapping[tuple[str, str], float],
) -> list[Row]:
    """Returns the rows that are worse than recorded in a second run too.

    Args:
        groups: the rows of the first run, by group.
        measure: measures a group again.
        recorded: the recorded figures.
    """
    worse: list[Row] = []
    for name, rows in groups.items():
        first = {(row.what, row.control) for row in find_worse(rows, recorded)}
        if first:
            again = find_worse(measure(name), recorded)
            worse += [row for row in again if (row.what, row.control) in first]
    return worse


def format_worse(rows: Iterable[Row], recorded: Mapping[tuple[str, str], float]) -> str:
    """Returns one line for each row that is worse than recorded, twice."""
    lines = [
        f"  worse: {row.what}: {row.figure:.2f}, recorded {recorded[row.what, row.control]:.2f}"
        for row in rows
    ]
    return "\n".join(lines or [f"  no row is worse than {ALLOWED} of its recorded figure in two runs"])
