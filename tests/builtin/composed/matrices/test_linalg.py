"""Condition numbers are those of numpy, which has infinity for a matrix without an inverse."""

import math

import numpy as np
import pytest

import oplib

MATRICES = {
    "invertible": [[1.0, 2.0], [3.0, 4.0]],
    "singular": [[1.0, 2.0], [2.0, 4.0]],
    "zero": [[0.0, 0.0], [0.0, 0.0]],
    "one of several is singular": [[[1.0, 0.0], [0.0, 2.0]], [[0.0, 1.0], [0.0, 0.0]]],
}


@pytest.mark.parametrize("p", [1, -1, "fro", math.inf, -math.inf])
@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_without_inverse_has_an_infinite_condition_number(name, p):
    due = np.linalg.cond(np.array(MATRICES[name]), p)

    def measure(matrix):
        return oplib.linalg.cond(matrix, p)

    for run in (measure, oplib.jit(measure)):
        np.testing.assert_allclose(run(oplib.tensor(MATRICES[name])).numpy(), due, rtol=1e-5)


def test_a_singular_matrix_leaves_the_gradients_of_others():
    x = oplib.tensor([MATRICES["invertible"], MATRICES["singular"]], requires_grad=True)
    oplib.linalg.cond(x, 1).sum().backward()
    alone = oplib.tensor(MATRICES["invertible"], requires_grad=True)
    oplib.linalg.cond(alone, 1).backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad[0].numpy(), alone.grad.numpy())
