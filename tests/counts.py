"""Counts of tests beside passing, such as rounds of the soak and lines of the library, over all workers."""

from __future__ import annotations

import os
from collections import Counter, defaultdict

import pytest

counts: Counter[str] = Counter()
"""Of the current test."""

sizes: dict[str, int] = {}
"""Counts of the current test that do not depend on how long it ran."""

totals: Counter[str] = Counter()
"""Of all tests that have reported."""

seconds: defaultdict[str, float] = defaultdict(float)
"""How long the tests took that counted the same."""

_durations: dict[str, float] = {}
_sizes: dict[str, int] = {}


def hand_over(item: pytest.Item) -> None:
    """Puts the counts of a test into its report."""
    if counts:
        item.user_properties.append(("counts", dict(counts)))
        counts.clear()
    if sizes:
        item.user_properties.append(("sizes", dict(sizes)))
        sizes.clear()


def collect(report: pytest.TestReport) -> None:
    """Adds the counts of a test, and its duration."""
    if report.when == "call":
        _durations[report.nodeid] = report.duration
    elif report.when == "teardown":
        duration = _durations.pop(report.nodeid, 0.0)
        for name, value in report.user_properties:
            if name == "sizes" and isinstance(value, dict):
                _sizes.update(value)
            if name == "counts" and isinstance(value, dict):
                totals.update(value)
                for one in value:
                    seconds[one] += duration


def show(reporter: pytest.TerminalReporter) -> None:
    """Prints the sizes, and the counts of a soak."""
    for name, count in _sizes.items():
        reporter.write_line(f"{name}: {count:,}")
    if os.environ.get("OPLIB_SOAK_SECONDS"):
        for name, count in sorted(totals.items()):
            pace = count / max(seconds[name], 1e-9) * 60
            reporter.write_line(f"{name}: {count} in {seconds[name]:.0f} s, {pace:.0f} a minute")
