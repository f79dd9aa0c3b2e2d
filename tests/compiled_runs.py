"""Runs the tests with compiled autograd on for every backward, and bounds how many run eagerly.

``OPLIB_COMPILED_AUTOGRAD=1`` runs them so. A test that cannot pass in this mode stands in ``EXCEPTIONS`` with
its reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from oplib import tracebacks
from oplib.autograd.compiled_autograd import state
from oplib.autograd.compiled_autograd.deferred import execute_compiled
from oplib.config import config
from oplib.tensor import upcalls
from tests.seed import SHARE

IS_ON = os.environ.get("OPLIB_COMPILED_AUTOGRAD") == "1"
MOST_EAGER = 0.05 if SHARE == 1 else 0.1
"""A few tests run most of the eager passes, and chance decides which of them are in a share of the tests."""

LEAST_PASSES = 500
"""A run with fewer passes is one of some files, for which a share says little. It only shows it."""

MOST_EXCEPTIONS = 0.01
RECORDED = "create_graph=True"
INSIDE_TRACE = "inside a trace of JAX or a map of oplib"
SUSPENDED = "in a block of disable, or nested in a compiled pass"
RAISED = "ended by an error, in a check or a host step"
LEFT_OUT = (RECORDED, INSIDE_TRACE, SUSPENDED, RAISED)
"""The bound leaves out passes for which the mode has no effect by its rules, and passes that raise."""

KEEPS_MODE = "a compiled pass keeps grad mode off for all of its time"
EXCEPTIONS: dict[str, str] = {
    "OfAPass::test_finds_the_mode_around_the_pass": KEEPS_MODE,
    "OfAPass::test_computes_gradients_when_the_pass_frees_what_it_holds": KEEPS_MODE,
    "test_kept_gradients.py::test_the_gradient_of_a_sum_is_made_once": "a program makes its results anew",
}
"""Tests that are left out, by the end of their id, with the reason."""

counts: Counter[str] = Counter()
"""The passes of the current test."""

totals: Counter[str] = Counter()
"""The passes of all tests that have reported."""


def switch_on() -> None:
    """Turns compiled autograd on, and counts the backward passes."""
    if IS_ON:
        config.compiled_autograd = True
        for files in (tracebacks.is_inside, tracebacks._is_of_packages):
            files[__file__] = True  # the frame of _execute is none of the user's
        upcalls.fill({"execute_compiled": _execute})
        note = state.note_eager

        def note_eager(reason: str) -> None:
            counts[reason] += 1
            note(reason)

        for module in (state, *_modules()):
            setattr(module, "note_eager", note_eager)  # noqa: B010  a type checker refuses the plain form


def _modules() -> Sequence[Any]:
    from oplib.autograd.compiled_autograd import deferred

    return (deferred,)


def _execute(*args: Any) -> bool:
    noted = counts.total()
    try:
        served = execute_compiled(*args)
    except BaseException:
        counts[RAISED] += 1
        raise
    if served:
        counts["compiled"] += 1
    elif counts.total() == noted:
        counts[SUSPENDED if state.current_compiler() is None else INSIDE_TRACE] += 1
    return served


def select(items: list[pytest.Item]) -> None:
    """Keeps the tests of this run, and bounds how many are left out."""
    if not IS_ON:
        return
    left_out = 0
    for item in items:
        for name, reason in EXCEPTIONS.items():
            if item.nodeid.endswith(name):
                item.add_marker(pytest.mark.skip(reason=reason))
                left_out += 1
    if left_out > max(1, MOST_EXCEPTIONS * len(items)):
        raise pytest.UsageError(
            f"{left_out} of {len(items)} tests are left out with compiled autograd; the bound is "
            f"{MOST_EXCEPTIONS:.0%}."
        )


def hand_over(item: pytest.Item) -> None:
    """Puts the counts of a test into its report."""
    if IS_ON:
        item.user_properties.append(("backward passes", dict(counts)))
        counts.clear()


def collect(report: pytest.TestReport) -> None:
    """Adds the counts of a test."""
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == "backward passes":
                totals.update(value)  # pyright: ignore[reportCallIssue, reportArgumentType]  a dictionary


def show(reporter: pytest.TerminalReporter) -> None:
    """Prints how the passes ran, and fails the run if too many were eager."""
    if not IS_ON:
        return
    eager = Counter({reason: count for reason, count in totals.items() if reason != "compiled"})
    left_out = {reason: count for reason in LEFT_OUT if (count := eager.pop(reason, 0))}
    total = totals["compiled"] + eager.total()
    share = eager.total() / total if total else 0.0
    text = f"backward passes: {totals['compiled']} compiled, {eager.total()} eager ({share:.1%} of both)"
    reporter.write_line(f"{text}; the bound is {MOST_EAGER:.0%}")
    for reason, count in eager.most_common():
        reporter.write_line(f"  {count} eager: {reason}")
    for reason, count in left_out.items():
        reporter.write_line(f"  {count} more, left out: {reason}")
    reporter.write_line(f"tests left out: {len(EXCEPTIONS)}")
    if not totals["compiled"] and len(reporter.stats.get("passed", ())) >= LEAST_PASSES:
        pytest.exit("no backward pass was compiled", returncode=1)
    if share > MOST_EAGER and total >= LEAST_PASSES:
        pytest.exit("too many backward passes ran eagerly", returncode=1)
