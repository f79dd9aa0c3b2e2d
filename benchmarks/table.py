"""The table: the subject, the control, and whether the ratio is within its bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .rounds import Comparison


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: the description of the subject.
        control: the description of the control.
        bound: the largest allowed ratio (or number of seconds); None if the row is only reported.
        measured: both sides, or None where the row did not run.
        seconds: the subject alone, for a row whose bound is in seconds.
        note: a remark, or the reason why the row did not run.
        exact: False if two things that should be identical are not; such a row is missed at any ratio.
        is_printed: False for a row that is not printed; it counts, and ``--save`` stores it.
    """

    what: str
    control: str
    bound: float | None = None
    measured: Comparison | None = None
    seconds: float | None = None
    note: str = ""
    exact: bool = True
    is_printed: bool = True

    @property
    def figure(self) -> float | None:
        """Returns the figure that the bound limits: seconds if they are given, otherwise the ratio."""
        if self.seconds is not None or self.measured is None:
            return self.seconds
        return self.measured.ratio

    @property
    def verdict(self) -> str:
        """``reached``, ``missed``, ``reported`` for a row without a bound, or ``not run``."""
        if self.figure is None:
            return "not run"
        if self.bound is None:
            return "reported"
        return "reached" if self.exact and self.figure <= self.bound else "missed"

    def as_json(self) -> dict[str, Any]:
        """Returns the row as plain data."""
        data: dict[str, Any] = {
            "what": self.what,
            "control": self.control,
            "bound": self.bound,
            "measured": self.figure,
            "verdict": self.verdict,
            "note": self.note,
        }
        if self.measured is not None:
            data |= {
                "quartiles": self.measured.spread,
                "ratio_of_minima": self.measured.ratio_of_minima,
                "subject_us": _median_us(self.measured.subject),
                "control_us": _median_us(self.measured.control),
                "rounds": len(self.measured.subject),
            }
        return data


def _median_us(seconds: tuple[float, ...]) -> float:
    return sorted(seconds)[len(seconds) // 2] * 1e6


def format_head() -> str:
    """Returns the line above the table."""
    return _align("what", "ratio", "quartiles", "bound", "verdict") + (
        f"{'minima':>7} {'subject us':>11} {'control us':>11}  control"
    )


def format_title(title: str) -> str:
    """Returns the line above a group of rows."""
    return f"\n-- {title} ".ljust(len(format_head()), "-")


def format_row(row: Row) -> str:
    """Returns one line of the table, and a second one for its note."""
    has_ratio = row.measured is not None and row.seconds is None
    line = _align(
        row.what,
        "" if row.figure is None else f"{row.figure:.2f}{'' if has_ratio else 's'}",
        "({:.2f}..{:.2f})".format(*row.measured.spread) if has_ratio else "",
        "" if row.bound is None else f"{row.bound:.2f}",
        row.verdict,
    )
    if row.measured is not None:
        minima = f"{row.measured.ratio_of_minima:.2f}" if has_ratio else ""
        mine, its = _median_us(row.measured.subject), _median_us(row.measured.control)
        line += f"{minima:>7} {mine:>11.1f} {its:>11.1f}  {row.control}"
    return f"{line.rstrip()}\n    {row.note}" if row.note else line.rstrip()


def _align(what: str, ratio: str, quartiles: str, bound: str, verdict: str) -> str:
    return f"{what:<52} {ratio:>7} {quartiles:>14} {bound:>6} {verdict:<9}"


def format_summary(rows: Sequence[Row]) -> str:
    """Returns the number of reached bounds, and the missed ones."""
    bounded = [row for row in rows if row.bound is not None]
    counts = Counter(row.verdict for row in bounded)
    head = f"\n{counts['reached']} bounds reached, {counts['missed']} missed, {counts['not run']} not run."
    missed = [row for row in bounded if row.verdict == "missed" and row.is_printed]
    return "\n".join(
        [head, *(f"  missed: {row.what}: {row.figure:.2f}, bound {row.bound:.2f}" for row in missed)]
    )
