"""Random programs with ops, Functions, writes and modes leave what they leave on torch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

import oplib
from tests.soak.torch_lines import DTYPES, SHAPES
from tests.soak.torch_programs import ENDINGS, MODES, NAMES, draw_program, fails
from tests.soak.torch_runs import Line, Run, make_tables

torch = pytest.importorskip("torch")

for library in (torch, oplib):  # a test forgets the ops that it registers
    make_tables(library)

COUNT = 10
"""Of programs for each mode, the same in each run. ``python -m tests.soak.torch_programs`` draws others."""


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(COUNT))
def test_a_program_leaves_what_it_leaves_on_torch(number: int, mode: str):
    program = draw_program(random.Random(f"1 {mode} {number}"))
    difference = fails(program, mode)
    assert difference is None, f"{program}\n{difference}"


def list_lines(lines: Sequence[Line]) -> Iterator[Line]:
    for line in lines:
        yield line
        yield from list_lines(line.inside)


def test_programs_have_all_lines_endings_shapes_and_dtypes():
    programs = [draw_program(random.Random(number)) for number in range(1000)]
    lines = {line[:2] for program in programs for line in list_lines(program.lines)}
    leaves = [leaf for program in programs for leaf in program.leaves]
    assert lines == {(kind, name) for kind, names in NAMES.items() for name in names}
    assert {program.ending for program in programs} == {*ENDINGS}
    assert {values.shape for _, values, _ in leaves} == {*SHAPES}
    assert {dtype for dtype, _, _ in leaves} == {*DTYPES}


@pytest.mark.slow
@pytest.mark.usefixtures("without_warnings")
def test_most_lines_of_a_program_run():
    """A line that both libraries refuse compares little."""
    tried = failed = 0
    for number in range(100):
        run = Run(torch, draw_program(random.Random(number)))
        for x in run.make_arguments():
            run.write()(x)
        tried += len(run.program.lines)
        failed += len(run.errors)
    assert failed < tried / 5
