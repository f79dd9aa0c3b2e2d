"""What the tests draw depends on the seed of the run alone, and the seed is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest
from hypothesis import strategies as st

from tests import seed
from tests.builtin.grid.checks import CHECKS
from tests.builtin.grid.grid import draw_cells

ROOT = Path(__file__).parent.parent


def draw_numbers(monkeypatch, number):
    """Returns the examples that a test of hypothesis sees in a run with this seed."""
    seen: list[int] = []

    @hypothesis.settings(database=None)
    @hypothesis.given(st.integers())
    def test(example):
        seen.append(example)

    monkeypatch.setattr(seed, "SEED", number)
    seed.seed_programs([SimpleNamespace(obj=test)])
    test()
    return seen


def test_examples_of_hypothesis_are_those_of_the_seed(monkeypatch):
    assert draw_numbers(monkeypatch, 1) == draw_numbers(monkeypatch, 1)
    assert draw_numbers(monkeypatch, 1) != draw_numbers(monkeypatch, 2)


def test_the_cells_of_the_grid_are_those_of_the_seed(monkeypatch):
    monkeypatch.setattr(seed, "TAKE_ALL", False)
    found: dict[int, list[str]] = {}
    for number in (1, 2):
        monkeypatch.setattr(seed, "SEED", number)
        found[number] = [f"{cell} {cell.numbers}" for cell in draw_cells(CHECKS)]
        assert found[number] == [f"{cell} {cell.numbers}" for cell in draw_cells(CHECKS)]
    assert found[1] != found[2]


def select_numbers(monkeypatch, number, share):
    """Returns what a run with this seed and share keeps of a hundred tests, and what it leaves out."""
    monkeypatch.setattr(seed, "SEED", number)
    monkeypatch.setattr(seed, "SHARE", share)
    items, left_out = list(range(100)), []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    seed.select_share(SimpleNamespace(hook=hook), items)
    return items, left_out


def test_a_share_of_the_tests_is_that_of_the_seed(monkeypatch):
    items, left_out = select_numbers(monkeypatch, 1, 4)
    assert len(items) == 25
    assert sorted(items + left_out) == list(range(100))
    assert items == sorted(items) == select_numbers(monkeypatch, 1, 4)[0]
    assert items != select_numbers(monkeypatch, 2, 4)[0]
    kept = [item for number in range(60) for item in select_numbers(monkeypatch, number, 4)[0]]
    assert set(kept) == set(range(100))


def test_without_a_share_all_tests_run(monkeypatch):
    assert select_numbers(monkeypatch, 1, 1) == (list(range(100)), [])


class Cell:
    """As much of an item of pytest as the draw looks at."""

    def __init__(self, nodeid, *marks):
        self.nodeid, self.marks = nodeid, {mark.name: mark for mark in marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def draw_matrix(monkeypatch, number):
    """Returns the names of the tests that a run with this seed leaves of two matrices and others."""
    monkeypatch.setattr(seed, "SEED", number)
    matrix = pytest.mark.matrix(4).mark
    cells = [Cell(f"{name}[{place}]", matrix) for name in "ab" for place in range(10)]
    cells += [Cell(f"c[{place}]") for place in range(5)]
    cells += [
        Cell("a[slow]", matrix, pytest.mark.slow.mark),
        *(Cell(f"d[{place}]", matrix) for place in range(7)),
        *(Cell(f"e[{place}]") for place in range(seed.MANY)),
    ]
    seed.mark_undrawn(cells)
    return [cell.nodeid for cell in cells if "undrawn" not in cell.marks]


def test_one_of_the_cells_that_follow_each_other_is_drawn(monkeypatch):
    kept = draw_matrix(monkeypatch, 1)
    assert kept == draw_matrix(monkeypatch, 1) != draw_matrix(monkeypatch, 2)
    for name in "ab":
        places = [int(one[2:-1]) // 4 for one in kept if one[0] == name and one[2:-1].isdigit()]
        assert places == [0, 1, 2]
    places = [int(one[2:-1]) // 2 for one in kept if one[0] == "e"]
    assert places == list(range(seed.MANY // 2))
    assert {f"c[{place}]" for place in range(5)} | {f"d[{place}]" for place in range(7)} | {"a[slow]"} <= set(
        kept
    )


def test_each_cell_of_a_matrix_is_drawn_by_some_seed(monkeypatch):
    kept = {one for number in range(60) for one in draw_matrix(monkeypatch, number)}
    assert {f"{name}[{place}]" for name in "abe" for place in range(10)} <= kept


@pytest.mark.slow
def test_a_run_tells_its_seed_at_the_start_and_after_a_failure(tmp_path):
    failing = tmp_path / "test_failing.py"
    failing.write_text("def test_failing():\n    assert False\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", failing]
    environment = {**os.environ, "OPLIB_TEST_SEED": "31", "OPLIB_TEST_SHARE": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("OPLIB_TEST_SEED=31") == 2
