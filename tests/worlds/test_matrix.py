"""Each row of the matrix in each column, beside the same row op by op."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from oplib.errors import OplibError

from .columns import COLUMNS, run_op_by_op
from .rows import ROWS, Row

pytestmark = [pytest.mark.slow, pytest.mark.spec("D.48")]


@functools.cache
def find_expected(program):
    return run_op_by_op(program)


def _list_cells() -> Iterator[Any]:
    for row in ROWS:
        for column in COLUMNS:
            defect = row.known_defects.get(column)
            marks = [pytest.mark.xfail(reason=defect)] if defect else []
            yield pytest.param(column, row, id=f"{column}-{row.name}", marks=marks)


@pytest.mark.parametrize(("column", "row"), list(_list_cells()))
def test_a_row_gives_the_same_in_each_world(column: str, row: Row) -> None:
    try:
        found = COLUMNS[column](row.run)
    except (OplibError, TypeError):
        if column in row.may_refuse:
            return
        raise
    expected = find_expected(row.instead.get(column, row.run)) | {"value": find_expected(row.run)["value"]}
    for name, values in found.items():
        np.testing.assert_allclose(np.asarray(values), expected[name], rtol=2e-5, atol=2e-5, err_msg=name)
