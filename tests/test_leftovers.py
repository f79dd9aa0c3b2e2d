"""The guard that every test runs under."""

import sys

import jax
import pytest

from oplib.config import config
from oplib.library.library import Library
from oplib.modes import modes
from tests.leftovers import find_leftovers, restore, take_snapshot

KEPT: list[Library] = []


def leave_grad_disabled():
    modes.grad_enabled = False


def leave_kernels_uncompiled():
    config.compile_kernels = False


def leave_x64_enabled():
    jax.config.update("jax_enable_x64", True)


def leave_an_op():
    KEPT.append(Library("leftovers", "FRAGMENT"))
    KEPT[-1].define("twice(Tensor x) -> Tensor")


def leave_the_stack_deep():
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)


@pytest.mark.parametrize(
    ("misbehave", "name"),
    [
        (leave_grad_disabled, "modes.grad_enabled"),
        (leave_kernels_uncompiled, "oplib.config.compile_kernels"),
        (leave_x64_enabled, "jax.config.jax_enable_x64"),
        (leave_an_op, "op leftovers::twice"),
        (leave_the_stack_deep, "recursion limit"),
    ],
)
def test_state_that_is_left_behind_is_named_and_put_back(misbehave, name):
    before = take_snapshot()
    misbehave()
    try:
        leftovers = find_leftovers(before, take_snapshot())
    finally:
        restore(before)
    assert [line.split(":")[0] for line in leftovers if name in line] == [name]
    assert find_leftovers(before, take_snapshot()) == []


def test_a_test_that_changes_nothing_leaves_nothing():
    assert find_leftovers(take_snapshot(), take_snapshot()) == []
