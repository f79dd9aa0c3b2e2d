"""The grid: every overload of a built-in op, by every check that applies to one of its samples.

A *cell* is one overload and one check; in it run all samples to which the check applies, or in a seeded run
one of them. ``OPLIB_OPS_SAMPLES=all`` takes every cell with every sample, ``OPLIB_TEST_SEED`` draws others. A
cell in which some sample is expected to fail (``expected_failures.py``) counts as an expected failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import jax
import pytest

from tests import seed
from tests.builtin.samples.samples import find_samples

from .calls import OPS, find_call
from .check import Check
from .differences import differ
from .expected_failures import ExpectedFailure, find_expected


@dataclass(frozen=True)
class Cell:
    """One overload and one check, with the numbers of the samples to run."""

    op: str
    check: Check
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.op}-{self.check.name}"


def list_cells(checks: Iterable[Check]) -> list[Cell]:
    """Returns every cell to which its check applies, with all samples of it."""
    cells: list[Cell] = []
    checks = tuple(checks)
    for name, op in OPS.items():
        samples = find_samples(op)
        for check in checks:
            numbers = [number for number, sample in enumerate(samples) if check.applies(name, sample)]
            if numbers:
                cells.append(Cell(name, check, tuple(numbers[:1] if check.once else numbers)))
    return cells


def draw_cells(checks: Iterable[Check]) -> list[Cell]:
    """Returns the cells of a run: all, or a seeded part of them with one sample each."""
    cells = list_cells(checks)
    if seed.TAKE_ALL:
        return cells
    drawn: list[Cell] = []
    for cell in cells:
        rng = seed.make_random(str(cell))
        if rng.random() < cell.check.share:
            drawn.append(Cell(cell.op, cell.check, (rng.choice(cell.numbers),)))
    return drawn


def make_parameters(checks: Iterable[Check]) -> list[object]:
    """Returns cells as parameters of a test; the cells of an op run in one process, which reuses results."""
    return [
        pytest.param(cell, id=str(cell), marks=pytest.mark.xdist_group(cell.op))
        for cell in draw_cells(checks)
    ]


@cache
def limit_compiled_programs(op: str) -> None:
    """Drops the compiled code of earlier ops in a complete run, which memory could not hold."""
    if seed.TAKE_ALL and limit_compiled_programs.cache_info().misses % 8 == 0:
        differ.cache_clear()
        find_call.cache_clear()
        jax.clear_caches()


def list_expected(cell: Cell) -> list[ExpectedFailure]:
    """Returns the expected failures among the samples of a cell."""
    samples = find_samples(OPS[cell.op])
    found = (find_expected(cell.op, cell.check.name, str(samples[number])) for number in cell.numbers)
    return list(dict.fromkeys(entry for entry in found if entry is not None))


def check_cell(cell: Cell) -> None:
    """Runs the samples of a cell.

    Raises:
        AssertionError: a sample fails unexpectedly, or passes unexpectedly.
    """
    limit_compiled_programs(cell.op)
    failures: list[str] = []
    reasons: list[str] = []
    for number in cell.numbers:
        call = find_call(cell.op, number, is_complex=cell.check.is_complex)
        text = str(find_samples(OPS[cell.op])[number])
        expected = find_expected(cell.op, cell.check.name, text)
        try:
            cell.check.run(call)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  a cell tells all its failures
            if expected is None:
                failures.append(f"({text}) {type(error).__name__}: {error}")
            else:
                reasons.append(expected.because)
        else:
            if expected is not None:
                failures.append(f"({text}) passes: take it off tests/builtin/grid/expected_failures.py")
    assert not failures, "\n".join([f"{cell}: {len(failures)} of {len(cell.numbers)} samples", *failures])
    if reasons:
        pytest.xfail(reasons[0])
