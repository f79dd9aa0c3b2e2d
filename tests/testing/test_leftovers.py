"""The guard that every test runs under."""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from oplib.config import config
from oplib.library.registration.library import Library
from oplib.modes import modes
from oplib.tensor import upcalls
from oplib.tensor.dtypes.rules import set_default_dtype
from oplib.testing.leftovers import World
from oplib.transforms.checkpoint.checkpoint import set_checkpoint_early_stop

KEPT: list[Any] = []


def leave_grad_disabled():
    modes.grad_enabled = False


def leave_kernels_uncompiled():
    config.compile_kernels = False


def leave_x64_enabled():
    jax.config.update("jax_enable_x64", True)


def leave_an_op():
    KEPT.append(Library("leftovers", "FRAGMENT"))
    KEPT[-1].define("twice(Tensor x) -> Tensor")


def leave_a_default_dtype():
    set_default_dtype(jnp.bfloat16)


def leave_the_stack_deep():
    sys.setrecursionlimit(sys.getrecursionlimit() + 1)


def leave_a_setting_of_checkpoints():
    KEPT.append(set_checkpoint_early_stop(False))
    KEPT[-1].__enter__()


@pytest.mark.parametrize(
    ("misbehave", "name"),
    [
        (leave_grad_disabled, "modes.grad_enabled"),
        (leave_kernels_uncompiled, "oplib.config.compile_kernels"),
        (leave_x64_enabled, "jax.config.jax_enable_x64"),
        (leave_an_op, "op leftovers::twice"),
        (leave_a_default_dtype, "default dtype"),
        (leave_the_stack_deep, "recursion limit"),
        (leave_a_setting_of_checkpoints, "early stopping of checkpoints"),
    ],
)
def test_state_that_is_left_behind_is_named_and_put_back(misbehave, name, monkeypatch):
    monkeypatch.delitem(vars(upcalls), "refresh")  # with a default dtype all that is compiled would go
    before = World()
    misbehave()
    try:
        changes = before.find_changes(World())
    finally:
        before.restore()
    assert [line.split(": ")[0] for line in changes] == [name]
    assert before.find_changes(World()) == []


def test_a_test_that_changes_nothing_leaves_nothing():
    assert World().find_changes(World()) == []
