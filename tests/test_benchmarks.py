"""The benchmarks keep up with the tables: what they measure exists, and has arguments that they can make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
