"""Random programs of ``oplib.jit``, for a share of the soak: compiled runs are compared with plain ones."""

from __future__ import annotations

import random

import pytest

from tests.soak.rounds import repeat
from tests.transforms.jit.random_programs import check_program, draw_program

SHARE = 0.25
PARTS = 4
"""The tests among which the workers divide the programs."""


@pytest.mark.slow
@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("part", range(PARTS))
def test_a_compiled_program_leaves_what_the_plain_one_leaves(part: int):
    def run_round(numbers: random.Random) -> None:
        check_program(draw_program(numbers))

    repeat(f"compiled programs {part}", run_round, SHARE)
