"""Interrupts, and threads that share a storage, again and again."""

from __future__ import annotations

import random
import signal
import sys
import time
from typing import Any

import pytest

import oplib
from oplib.testing.leftovers import World
from tests.counts import counts
from tests.interrupts import find_leftovers, find_locks, find_taken
from tests.soak.rounds import repeat
from tests.tensor.views.row_writers import ROW_WRITERS
from tests.threads import run_in_threads
from tests.trainings import FORWARDS, Training, check_interrupts, forward_saved, register_cube

pytestmark = [
    pytest.mark.slow,
    # An interrupt in a generator that Python closes is printed, and goes no further.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def trainings(forget_ops: None) -> list[Training]:
    register_cube()
    return [Training(forward) for forward in FORWARDS]


def test_interrupts_at_any_place_leave_locks_free_and_the_next_step_right(trainings: list[Training]):
    def run_round(numbers: random.Random) -> None:
        step = numbers.randrange(20, 60)
        counts["interrupts"] += check_interrupts(
            numbers.choice(trainings), step=step, first=numbers.randrange(step)
        )

    repeat("interrupts", run_round)


def test_signals_at_any_time_leave_locks_free_and_the_next_step_right(trainings: list[Training]):
    before, locks = World(), find_locks()
    # The `with` statement of this one is outside of oplib: a signal as `__exit__` begins leaves its hooks.
    chosen = [training for training in trainings if training.forward is not forward_saved]

    def run_round(numbers: random.Random) -> None:
        training = numbers.choice(chosen)
        for _ in range(20):
            try:
                signal.setitimer(signal.ITIMER_REAL, numbers.uniform(2e-6, 2e-3))
                end = time.monotonic() + 1
                while time.monotonic() < end:  # an interrupt of a destructor is printed, and ends nothing
                    training.step()
            except KeyboardInterrupt:
                counts["signals"] += 1
            assert (find_leftovers(before), find_taken(locks)) == ([], [])
        assert training.first_step() == training.expected

    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        repeat("signals", run_round)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@pytest.fixture
def switch_often() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("switch_often")
def test_eight_threads_that_write_rows_through_views_lose_no_update():
    def run_round(numbers: random.Random) -> None:
        writers, times = [numbers.choice(ROW_WRITERS) for _ in range(8)], numbers.randrange(10, 40)
        base = oplib.zeros(8, 4)
        for writer in writers:
            writer(base, 0)
        base.zero_()

        def work(row: int) -> None:
            for _ in range(times):
                writers[row](base, row)

        run_in_threads(work, 8)
        assert base.tolist() == [[times] * 4] * 8, [writer.__name__ for writer in writers]
        counts["writes of rows"] += 8 * times

    repeat("rows", run_round)
