"""What tests count beside passing, such as rounds of the soak and random programs, over all workers."""

from __future__ import annotations

import os
from collections import Counter, defaultdict

import pytest

counts: Counter[str] = Counter()
"""Of the current test."""

totals: Counter[str] = Counter()
"""Of all tests that have reported."""

seconds: defaultdict[str, float] = defaultdict(float)
"""How long the tests took that counted the same."""

_durations: dict[str, float] = {}


def hand_over(item: pytest.Item) -> None:
    """Puts the counts of a test into its report."""
    if counts:
        item.user_properties.append(("counts", dict(counts)))
        counts.clear()


def collect(report: pytest.TestReport) -> None:
    """Adds the counts of a test, and its duration."""
    if report.when == "call":
        _durations[report.nodeid] = report.duration
    elif report.when == "teardown":
        duration = _durations.pop(report.nodeid, 0.0)
        for name, value in report.user_properties:
            if name == "counts" and isinstance(value, dict):
                totals.update(value)
                for one in value:
                    seconds[one] += duration


def show(reporter: pytest.TerminalReporter) -> None:
    """Prints what a soak has counted."""
    if os.environ.get("OPLIB_SOAK_SECONDS"):
        for name, count in sorted(totals.items()):
            pace = count / max(seconds[name], 1e-9) * 60
            reporter.write_line(f"{name}: {count} in {seconds[name]:.0f} s, {pace:.0f} a minute")
