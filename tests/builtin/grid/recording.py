"""A pytest plugin that records the results of the whole grid: ``-p tests.builtin.grid.recording``.

Outcomes go to ``out/op_grid.json``, where a later run of some cells replaces those; the page made of them is
``docs/inside/op_grid.md``.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OUTCOMES = ROOT / "out" / "op_grid.json"
PAGE = ROOT / "docs" / "inside" / "op_grid.md"
INTRODUCTION = """# The grid of the built-in ops

Written by `make test-ops`, which runs every check on every sample of every built-in op, also beside torch
(about an hour of one core; CI runs a seeded part). A *cell* is one overload of an op and one check; in it run
all samples of the op to which the check applies. Whether a check applies is decided by rule
(`tests/builtin/grid/check.py`), and what does not apply is no cell. Expected failures stand in
`tests/builtin/grid/expected_failures.py`; one that passes fails the run. Checks are listed in
`tests/builtin/grid/checks.py` and `tests/parity/op_checks.py`.

Running some cells with `-p tests.builtin.grid.recording` renews these alone, so the outcomes may be those of
several runs: what had failed, and ops mended or added meanwhile, ran again. The date is that of the last run.
"""


class Recorder:
    """Collects the outcomes of cells, in the process that sees the reports of all workers."""

    def __init__(self) -> None:
        self.outcomes: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cell = dict(report.user_properties).get("cell")
        if cell is None or not (report.when == "call" or report.failed):
            return
        op, check, samples = cell
        outcome = "expected failure" if hasattr(report, "wasxfail") else report.outcome
        self.outcomes[f"{op} / {check}"] = {
            "check": check,
            "samples": samples,
            "outcome": outcome,
            "because": getattr(report, "wasxfail", "").removeprefix("reason: "),
            "text": tell(report) if report.failed else "",
        }
        if len(self.outcomes) % 50 == 0:
            self.write()

    def pytest_sessionfinish(self) -> None:
        if self.outcomes:
            self.write()

    def write(self) -> None:
        OUTCOMES.parent.mkdir(exist_ok=True)
        known = json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.exists() else {}
        known.update(self.outcomes)
        OUTCOMES.write_text(json.dumps(known, indent=0), encoding="utf-8")
        PAGE.write_text(make_page(known), encoding="utf-8")


def tell(report: pytest.TestReport) -> str:
    """Returns the failure in short form."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr))[:2000]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "op-grid-recorder")


def make_page(outcomes: dict[str, dict[str, Any]]) -> str:
    """Returns the page of these outcomes."""
    counts = Counter(one["outcome"] for one in outcomes.values())
    expected = counts["expected failure"]
    found = (
        f"{len({name.partition(' / ')[0] for name in outcomes}):,} overloads, {len(outcomes):,} cells, "
        f"{sum(one['samples'] for one in outcomes.values()):,} runs of samples: {counts['passed']:,} cells "
        f"passed, {expected:,} failed as expected ({100 * expected / max(len(outcomes), 1):.2f} %, of 3 % "
        f"allowed), {counts['failed']:,} failed."
    )
    lines = [
        INTRODUCTION,
        f"Last run: {datetime.now(UTC):%Y-%m-%d}, {describe_versions()}.",
        "",
        found,
        "",
        *count_checks(outcomes),
        *list_failures(outcomes),
    ]
    return "\n".join(lines) + "\n"


def describe_versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in ("jax", "jaxlib", "torch", "numpy"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def count_checks(outcomes: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| check | cells | samples | passed | expected failures | failed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for check in dict.fromkeys(one["check"] for one in outcomes.values()):
        of_check = [one for one in outcomes.values() if one["check"] == check]
        counts = Counter(one["outcome"] for one in of_check)
        samples = sum(one["samples"] for one in of_check)
        lines.append(
            f"| {check} | {len(of_check)} | {samples} | {counts['passed']} | {counts['expected failure']} "
            f"| {counts['failed']} |"
        )
    return lines


def list_failures(outcomes: dict[str, dict[str, Any]]) -> list[str]:
    """Lists cells that failed, by the reason if the failure is expected."""
    by_reason: dict[str, list[str]] = {}
    for name, one in outcomes.items():
        if one["outcome"] != "passed":
            by_reason.setdefault(one["because"] or "not expected", []).append(f"`{name}`")
    lines = ["", "## What fails", ""] if by_reason else []
    return lines + [f"- {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
