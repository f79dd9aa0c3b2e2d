"""The grid of built-in ops beside torch; see ``tests/builtin/grid/grid.py`` for what a cell is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.builtin.grid import complex_ops
from tests.builtin.grid.checks import CHECKS
from tests.builtin.grid.grid import Cell, check_cell, list_cells, list_expected, make_parameters

from .complex_answers import ask_torch
from .op_checks import BESIDE_TORCH

pytestmark = pytest.mark.usefixtures("with_64_bits")


@pytest.mark.matrix(3)
@pytest.mark.parametrize("cell", make_parameters(BESIDE_TORCH))
def test_an_op_does_what_torch_does_on_its_samples(cell: Cell, record_property):
    record_property("cell", [cell.op, cell.check.name, len(cell.numbers)])
    check_cell(cell)


def test_the_ops_that_take_complex_numbers_are_those_of_torch():
    asked = ask_torch()
    assert asked["ACCEPT_COMPLEX"] == complex_ops.ACCEPT_COMPLEX
    assert asked["DIFFERENTIATE_COMPLEX"] == complex_ops.DIFFERENTIATE_COMPLEX


def test_at_most_three_in_a_hundred_of_all_cells_are_expected_to_fail():
    cells = list_cells([*CHECKS, *BESIDE_TORCH])
    expected = [cell for cell in cells if list_expected(cell)]
    assert len(expected) <= 0.03 * len(cells)
