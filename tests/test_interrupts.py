"""An interrupt leaves no lock taken and no mode changed, and the next step of a training is right."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import oplib
from oplib.autograd.saved_tensors import mutation
from oplib.testing.leftovers import World
from tests.interrupts import find_leftovers, find_locks, find_taken
from tests.trainings import FORWARDS, Training, check_interrupts, forward_plain, register_cube

# An interrupt in a generator that Python closes is printed, and goes no further.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def cube(forget_ops: None) -> Any:
    return register_cube()


@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.usefixtures("cube")
def test_an_interrupt_of_a_training_step_leaves_nothing_behind(forward: Callable[[Training], Any]):
    assert check_interrupts(Training(forward), step=11) > 10


@pytest.mark.slow
@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.usefixtures("cube")
def test_no_place_of_a_training_step_lets_an_interrupt_leave_something(forward: Callable[[Training], Any]):
    assert check_interrupts(Training(forward), step=1) > 100


@pytest.mark.slow
def test_thousands_of_signals_leave_a_training_as_it_should_be():
    training = Training(forward_plain)
    before, locks = World(), find_locks()
    count = 0
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in itertools.islice(itertools.cycle(range(1, 400)), 4000):
            try:
                # Python drops an interrupt that meets a finalizer; another one comes after a second.
                signal.setitimer(signal.ITIMER_REAL, delay * 2e-6, 1)
                while True:
                    training.step()
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                count += 1
            assert not find_leftovers(before)
            assert not find_taken(locks)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert count == 4000
    assert training.first_step() == training.expected


def test_a_finalizer_that_interrupts_the_holder_of_a_lock_may_take_it_again():
    oplib.jit(lambda x: x * oplib.rand(1))(oplib.ones(1))
    locks = find_locks().values()
    assert len(locks) > 10
    for_other_threads = [lock for lock in locks if isinstance(lock, type(threading.Lock()))]
    assert for_other_threads == [mutation._active]  # it says that a block is open, and nobody waits for it
