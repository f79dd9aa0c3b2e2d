"""Each row of the matrix in each column, beside the same row op by op."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oplib import Tensor
from oplib.library.registration.registry import registry

from .columns import COLUMNS, KINDS_IN, Found
from .kinds import KINDS, TAGS_OF_KINDS, Rules
from .row import ROWS, Code, Row
from .rows import load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:of the code", "ignore:.*kept a value that forward computed"),
    pytest.mark.spec("D.48"),
    pytest.mark.spec("D.49"),
    pytest.mark.spec("D.51"),
    pytest.mark.spec("D.52"),
    pytest.mark.spec("D.53"),
]
load()


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    row: Row
    column: str
    kind: str

    def __str__(self) -> str:
        return "-".join([self.row.name, self.column, *([] if self.kind == "operators" else [self.kind])])

    def find(self, given: Any) -> Any:
        """Returns the first value of a mapping whose key names this cell."""
        names = {"*", self.column, self.kind, *COLUMNS[self.column].tags, *TAGS_OF_KINDS[self.kind]}
        return next((value for key, value in given.items() if names.issuperset(key.split(" & "))), None)


@functools.cache
def make_op(rules: type[Rules], kind: str) -> Any:
    return KINDS[kind](rules)


@pytest.fixture(scope="module", autouse=True)
def named_ops() -> Iterator[None]:
    """Registers the ops that have a name."""
    before = registry.save()
    for row in ROWS:
        for kind in KINDS:
            if kind.startswith("named"):
                make_op(row.rules, kind)
    yield
    registry.restore(before)


def run(row: Row, code: Code, kind: str, column: str) -> Found:
    """Returns what a column finds, with the effects of the row."""
    op = make_op(row.rules, kind)

    def program(t: Tensor) -> Tensor:
        return code(t, op)

    row.before()
    if "later call" in COLUMNS[column].tags:
        return COLUMNS[column].run(program, row)
    with row.around():
        found = COLUMNS[column].run(program)
    return row.add_effects(found)


@functools.cache
def find_expected(row: Row, code: Code) -> Found:
    return run(row, code, "operators", "op by op")


def _list_cells() -> Iterator[Any]:
    for row in ROWS:
        for column in COLUMNS:
            for kind in KINDS if column in KINDS_IN else ["operators"]:
                cell = Cell(row, column, kind)
                defect = cell.find(row.known_defects)
                marks = [pytest.mark.xfail(reason=defect, strict=True)] if defect else []
                yield pytest.param(cell, id=str(cell), marks=marks)


@pytest.mark.parametrize("cell", list(_list_cells()))
def test_a_row_gives_the_same_in_each_world(cell: Cell) -> None:
    row = cell.row
    refusal = cell.find(row.refuses)
    if refusal is not None:
        with pytest.raises(Exception, match=refusal):
            run(row, row.run, cell.kind, cell.column)
        return
    found = run(row, row.run, cell.kind, cell.column)
    expected = find_expected(row, cell.find(row.instead) or row.run)
    change = cell.find(row.effects)
    for name, values in found.items():
        due = expected[name]
        if name == "effects":
            due = due if change is None else change(due)
            assert values == due, f"effects: {values}, due are {due}"
        else:
            np.testing.assert_allclose(np.asarray(values), due, rtol=2e-5, atol=2e-5, err_msg=name)
