"""Gradients where a kernel changes its branch, beside torch."""

from __future__ import annotations

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "logsigmoid": lambda lib, x: lib.nn.functional.logsigmoid(x),
    "hardswish": lambda lib, x: lib.nn.functional.hardswish(x),
    "i0": lambda lib, x: lib.i0(x),
    "threshold": lambda lib, x: lib.nn.functional.threshold(x, 0.0, 5.0),
}


def run(lib, function, numbers):
    x = lib.tensor(numbers, requires_grad=True)
    y = function(lib, x)
    (gradient,) = lib.autograd.grad(y.sum(), x)
    return y.tolist(), gradient.tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_at_kinks_are_those_of_torch(name):
    numbers = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 4.0, -4.0, 40.0, -40.0, float("nan")]
    values, gradients = run(oplib, FUNCTIONS[name], numbers)
    expected, expected_gradients = run(torch, FUNCTIONS[name], numbers)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(gradients[:-1], expected_gradients[:-1], rtol=1e-5)  # nan has none


def test_logsigmoid_is_smooth_at_0():
    x = oplib.tensor(0.0, requires_grad=True)
    (first,) = oplib.autograd.grad(oplib.nn.functional.logsigmoid(x), x, create_graph=True)
    (second,) = oplib.autograd.grad(first, x)
    assert (first.item(), second.item()) == (0.5, -0.25)
