"""Nine tasks of a first hour, each written from the pages alone, do what their author expects."""

import runpy
from pathlib import Path

import pytest

TASKS = sorted((Path(__file__).parent / "first_hour").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=[task.stem for task in TASKS])
@pytest.mark.usefixtures("forget_ops")
def test_the_program_of_a_task_does_what_its_author_expects(task):
    runpy.run_path(str(task))["main"]()


def test_there_are_nine_tasks():
    assert len(TASKS) == 9
