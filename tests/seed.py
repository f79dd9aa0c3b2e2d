"""The seed of a run: what the tests draw from it, and how much.

``OPLIB_TEST_SEED`` is 0 unless the environment gives another number; ``.ci/run`` takes it from the commit.
The workers of a run read the same environment, so they collect the same tests.
``OPLIB_OPS_SAMPLES=all`` takes everything that else is drawn from. Where not everything has been tried yet,
the draw is *steady*: each run takes the same, unless ``OPLIB_STEADY_SEED`` gives another number.
``OPLIB_TEST_SHARE=4`` runs a quarter of the tests, drawn by the seed.
A test marked ``matrix(4)`` has many cells of one rule. Of each four that follow each other one is drawn by
the seed; the others get the mark ``undrawn``. ``make test`` leaves those out, and ``make quick`` runs them.
A test without the mark that has ``MANY`` cells is drawn by halves in the same way.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import hypothesis
import pytest

T = TypeVar("T")
SEED = int(os.environ.get("OPLIB_TEST_SEED", "0"))
STEADY_SEED = int(os.environ.get("OPLIB_STEADY_SEED", "0"))
SHARE = int(os.environ.get("OPLIB_TEST_SHARE", "1"))
MANY = 16
TAKE_ALL = os.environ.get("OPLIB_OPS_SAMPLES") == "all"


def make_random(purpose: str, *, is_steady: bool = False) -> random.Random:
    """Returns the numbers of one purpose: the same in each run of the same seed, whatever else is drawn."""
    return random.Random(f"{STEADY_SEED if is_steady else SEED} {purpose}")


def draw_cases(cases: Sequence[T], count: int, purpose: str, *, is_steady: bool = False) -> list[T]:
    """Returns as many of the cases as asked for, or all of them in a run of all."""
    if TAKE_ALL:
        return list(cases)
    return make_random(purpose, is_steady=is_steady).sample(cases, min(count, len(cases)))


def seed_programs(items: Sequence[pytest.Item]) -> None:
    """Lets the tests of hypothesis draw their examples from the seed."""
    for item in items:
        test = getattr(item, "obj", None)
        if hypothesis.is_hypothesis_test(test):
            hypothesis.seed(SEED)(getattr(test, "__func__", test))


def mark_undrawn(items: Sequence[pytest.Item]) -> None:
    """Marks the cells of matrices that are not drawn. A matrix of few cells is drawn whole."""
    matrices: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            matrices[item.nodeid.partition("[")[0]].append(item)
    for name, cells in matrices.items():
        mark = cells[0].get_closest_marker("matrix")
        share, least = (2, MANY) if mark is None else (mark.args[0], 2 * mark.args[0])
        numbers = make_random(name)
        for start in range(0, len(cells) if len(cells) >= least else 0, share):
            neighbours = cells[start : start + share]
            drawn = numbers.choice(neighbours)
            for cell in neighbours:
                if cell is not drawn:
                    cell.add_marker(pytest.mark.undrawn)


def select_share(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects all tests but the share of the run."""
    if SHARE > 1:
        drawn = set(make_random("tests").sample(range(len(items)), -(-len(items) // SHARE)))
        config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index not in drawn])
        items[:] = [item for index, item in enumerate(items) if index in drawn]


def describe_seed() -> str:
    """Returns the line that tells how to draw the same again."""
    share = f", and one test of {SHARE}" if SHARE > 1 else ""
    return f"samples and random programs{share} are drawn with OPLIB_TEST_SEED={SEED}"
