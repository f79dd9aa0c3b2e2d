"""Training programs give the same on torch, on oplib, and on oplib as compiled programs.

A program is written once, for a namespace that is torch or oplib. Random numbers of the comparison with torch
come from numpy; eager and compiled runs are also compared with the numbers of oplib's own Generator.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import oplib
from oplib.pytree import tree_flatten
from tests.programs.catalogue import PROGRAMS
from tests.programs.training import Maker

pytestmark = pytest.mark.spec("J.2", "J.5")


RANDOM = [name for name, program in PROGRAMS.items() if program.noise]


class Run(NamedTuple):
    """The losses of each step, and all Tensors after the last one."""

    losses: np.ndarray
    state: list[np.ndarray]


def train(
    name: str,
    lib: Any,
    steps: int,
    dtype: str = "float32",
    *,
    compiled: bool = False,
    own_noise: bool = False,
) -> Run:
    """Runs a program."""
    functions: list[Any] = []

    def compile_function(function: Any) -> Any:
        functions.append(oplib.jit(function) if compiled else function)
        return functions[-1]

    program = PROGRAMS[name]
    maker = Maker(lib, dtype, compile_function)
    training = program.make(maker)
    losses: list[list[float]] = []
    for arrays in islice(program.draw(np.random.default_rng(0)), steps):
        given = {key: array for key, array in arrays.items() if not own_noise or key not in program.noise}
        result = training.step(**maker.tensors(given))
        losses.append([loss.item() for loss in tree_flatten(result)[0]])
    if compiled:
        assert all(function.compilations == 1 for function in functions)  # gradients from before are not read
    return Run(np.array(losses), [np.asarray(tensor.detach()) for tensor in training.state])


def assert_agree(one: Run, other: Run, *, rtol: float, state: bool) -> None:
    np.testing.assert_allclose(one.losses, other.losses, rtol=rtol)
    if state:
        for mine, its in zip(one.state, other.state, strict=True):
            np.testing.assert_allclose(mine, its, rtol=rtol, atol=rtol)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_steps_give_the_losses_of_torch(name, torch):
    theirs = train(name, torch, 5)
    assert_agree(train(name, oplib, 5, compiled=True), theirs, rtol=1e-5, state=False)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_twenty_steps_give_the_losses_of_torch(name, compiled, torch):
    theirs = train(name, torch, 20)
    assert_agree(train(name, oplib, 20, compiled=compiled), theirs, rtol=1e-5, state=False)


@pytest.mark.slow
@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_float64_losses_and_parameters_are_those_of_torch(name, compiled, torch):
    theirs = train(name, torch, 20, "float64")
    assert theirs.state[0].dtype == np.float64
    assert_agree(train(name, oplib, 20, "float64", compiled=compiled), theirs, rtol=1e-10, state=True)


@pytest.mark.slow
@pytest.mark.spec("J.3")
@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("name", RANDOM)
def test_a_compiled_program_draws_the_numbers_of_the_plain_one(name):
    runs, states = [], []
    for compiled in (False, True):
        oplib.manual_seed(7)
        runs.append(train(name, oplib, 20, "float64", compiled=compiled, own_noise=True))
        states.append(oplib.rand(3).tolist())
    assert_agree(runs[1], runs[0], rtol=1e-10, state=True)
    assert states[1] == states[0]
    assert not np.allclose(runs[0].losses, train(name, oplib, 20, "float64", own_noise=True).losses)


def test_a_run_that_differs_is_found():
    run = train("mlp", oplib, 1)
    with pytest.raises(AssertionError):
        assert_agree(Run(run.losses * (1 + 1e-4), run.state), run, rtol=1e-5, state=False)
    with pytest.raises(AssertionError):
        assert_agree(Run(run.losses, [one + 1e-4 for one in run.state]), run, rtol=1e-5, state=True)
    assert not jax.config.jax_enable_x64
