"""The text of a program depends on the function, its operands and the settings alone."""

import os
import subprocess
import sys

import jax
import pytest

import oplib
from tests.documents import ROOT

pytestmark = pytest.mark.spec("J.19")


def start(seed, *arguments):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "tests.transforms.jit.same_programs", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)


@pytest.mark.slow
def test_processes_with_other_histories_lower_the_same_eight_programs():
    processes = [start("1"), start("2", "history")]
    try:
        answers = [process.communicate(timeout=400)[0].splitlines() for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], answers
    assert len(answers[0]) == 8
    assert answers[0] == answers[1]


def test_a_program_is_the_same_after_an_evaluation_outside():
    w = oplib.tensor([1.0, 2.0], requires_grad=True)

    def step(x):
        made = oplib.zeros(4)
        made[1] = 7.25
        made[2:] = x * 3.75
        (w * x * 3.75).sum().backward()
        return made

    def lower():
        return oplib.jit(step).lower(oplib.tensor([3.0, 4.0])).as_text()

    before = lower()
    for _ in range(2):  # caches keep what is used twice
        step(oplib.tensor([3.0, 4.0]))
    w.grad = None
    assert lower() == before
    assert "1.000000e+00" in before  # the gradient of the sum is made by the program


@pytest.mark.parametrize("number", [2, 2.5, 1j])
def test_numbers_in_a_program_have_the_results_of_the_function(number):
    x = oplib.tensor([1.0, 2.0])
    expected = x * number + number
    for _ in range(2):
        assert oplib.equal(oplib.jit(lambda x: x * number + number)(x), expected)
    right = jax.jit(lambda x: x * number + number)(x.array)
    assert oplib.equal(expected, oplib.Tensor.from_array(right))
