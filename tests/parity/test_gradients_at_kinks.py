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
AT_NAN_TOO = {
    **{
        name: lambda lib, x, name=name: getattr(lib, name)(x)
        for name in ("round", "floor", "ceil", "trunc", "sign")
    },
    "round to decimals": lambda lib, x: lib.round(x, decimals=1),
    "div floor": lambda lib, x: lib.div(x, 0.3, rounding_mode="floor"),
    "div trunc": lambda lib, x: lib.div(lib.tensor(2.0), x, rounding_mode="trunc"),
    "clamp": lambda lib, x: x.clamp(-1, 1),
    "clamp to tensors": lambda lib, x: lib.clamp(x, lib.tensor(-1.0), lib.tensor(1.0)),
    "clamp_min": lambda lib, x: x.clamp(min=0),
    "clamp_max": lambda lib, x: x.clamp(max=0),
    "clamp of the bound": lambda lib, x: lib.clamp(lib.tensor(1.0), x, lib.tensor(3.5)),
}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 4.0, -4.0, 40.0, -40.0, float("nan")]


def run(lib, function, numbers):
    x = lib.tensor(numbers, requires_grad=True)
    y = function(lib, x)
    (gradient,) = lib.autograd.grad(y.sum(), x)
    return y.tolist(), gradient.tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_at_kinks_are_those_of_torch(name):
    values, gradients = run(oplib, FUNCTIONS[name], NUMBERS)
    expected, expected_gradients = run(torch, FUNCTIONS[name], NUMBERS)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(gradients[:-1], expected_gradients[:-1], rtol=1e-5)  # nan has none


@pytest.mark.parametrize("name", AT_NAN_TOO)
def test_where_nan_has_a_gradient_it_is_that_of_torch(name):
    values, gradients = run(oplib, AT_NAN_TOO[name], NUMBERS)
    expected, expected_gradients = run(torch, AT_NAN_TOO[name], NUMBERS)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(gradients, expected_gradients)


@pytest.mark.parametrize("number", [0.0, 1e-30, 1e-20, 1e-18, 1e-10, 1e-4, 0.01, 0.159, 0.16, 0.5, 1.5])
def test_sinc_has_the_gradient_of_doubles_near_0(number):
    """Torch's own in single is off below 1e-3; near 0 the derivative is -pi**2 x / 3."""
    _, gradient = run(oplib, lambda lib, x: lib.sinc(x), number)
    if number < 1e-3:
        expected = -(np.pi**2) * number / 3
    else:
        _, expected = run(torch, lambda lib, x: lib.sinc(x.double()), number)
    np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=1e-16)


@pytest.mark.parametrize("number", [0.0, -0.0, -1.0, 2.0])
def test_the_gradient_of_lgamma_is_infinite_at_0(number):
    _, gradient = run(oplib, lambda lib, x: lib.lgamma(x), number)
    _, expected = run(torch, lambda lib, x: lib.lgamma(x), number)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_each_nan_is_an_item_of_its_own():
    def count(lib):
        found, inverse, counts = lib.unique(
            lib.tensor([float("nan"), 2.0, float("nan"), 2.0]), return_inverse=True, return_counts=True
        )
        return found.tolist(), sorted(inverse.tolist()), counts.tolist()

    for ours, theirs in zip(count(oplib), count(torch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_logsigmoid_is_smooth_at_0():
    x = oplib.tensor(0.0, requires_grad=True)
    (first,) = oplib.autograd.grad(oplib.nn.functional.logsigmoid(x), x, create_graph=True)
    (second,) = oplib.autograd.grad(first, x)
    assert (first.item(), second.item()) == (0.5, -0.25)
