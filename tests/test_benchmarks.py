"""The benchmarks keep up with the tables: what they measure exists, and has arguments that they can make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recorded import find_worse_twice, format_worse, read_recorded
from benchmarks.table import Row

ROOT = Path(__file__).parent.parent
# In a process of its own: the benchmarks register ops.
SCRIPT = """
from benchmarks.pointwise import can_record, list_calls
calls = list_calls()
names = {call.row.name for call in calls}
assert {"add.Tensor", "mul.Scalar", "gelu", "where.Scalar", "bitwise_and.Tensor", "mm"} <= names, names
assert sum(map(can_record, calls)) > 100
first = next(call for call in calls if call.row.name == "add.scaled")
subject, control = first.make_subject(requires_grad=True), first.make_control()
mine, its = subject.call(*subject.operands), control.call(*control.operands)
assert mine.requires_grad and (mine.array == its).all()
"""


@pytest.mark.slow
def test_the_table_of_pointwise_ops_has_operands_for_each_of_them() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SIZES = """
import oplib, torch
from benchmarks.sizes import CASES
for one in CASES:
    size = max(1, one.size // 50)
    sides = [one.make_case(module, module.tensor, size) for module in (oplib, torch)]
    mine, its = ([tuple(part.shape) for part in (found if isinstance(found, list) else [found])]
                 for found in (side.call(*side.operands) for side in sides))
    assert mine == its, (one.what, mine, its)
"""


@pytest.mark.slow
def test_each_op_at_the_sizes_of_programs_is_called_alike_in_torch() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", SIZES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def make_row(what: str, figure: float) -> Row:
    return Row(what, "by hand", seconds=figure)


def test_the_latest_record_of_a_row_counts(tmp_path):
    row = '{"rows": [{"what": "mul", "control": "jit", "measured": %s}]}'
    (tmp_path / "2026-01-02-machine.json").write_text(row % 1.2)
    (tmp_path / "2026-01-01-machine.json").write_text(row % 1.5)
    (tmp_path / "2026-01-03-machine.json").write_text(row % "null")
    assert read_recorded(tmp_path) == {("mul", "jit"): 1.2}


def test_the_records_of_the_project_can_be_read():
    assert len(read_recorded()) > 50


def test_a_row_that_is_worse_in_one_run_only_passes_the_check():
    recorded = {("a", "by hand"): 1.0, ("b", "by hand"): 1.0, ("c", "by hand"): 1.0}
    first = {"calls": [make_row("a", 1.2), make_row("b", 1.2), make_row("c", 1.1), make_row("new", 9.0)]}
    again = [make_row("a", 1.3), make_row("b", 1.1), make_row("c", 1.4), make_row("new", 9.0)]
    worse = find_worse_twice(first, lambda name: again, recorded)
    assert [row.what for row in worse] == ["a"]
    assert format_worse(worse, recorded) == "  worse: a: 1.30, recorded 1.00"


def test_a_group_without_worse_rows_is_not_measured_again():
    assert find_worse_twice({"calls": [make_row("a", 1.1)]}, pytest.fail, {("a", "by hand"): 1.0}) == []
