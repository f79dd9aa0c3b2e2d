"""Random programs with ops, Functions, writes and modes leave what they leave on torch."""

from __future__ import annotations

import random

import pytest

import oplib
from tests.soak.torch_programs import MODES, draw_program, fails, make_tables

torch = pytest.importorskip("torch")

for library in (torch, oplib):  # a test forgets the ops that it registers
    make_tables(library)

COUNT = 10
"""Of programs for each mode, the same in each run. ``python -m tests.soak.torch_programs`` draws others."""


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(COUNT))
def test_a_program_leaves_what_it_leaves_on_torch(number: int, mode: str):
    program = draw_program(random.Random(f"1 {number}"))
    difference = fails(program, mode)
    assert difference is None, f"{program}\n{difference}"
