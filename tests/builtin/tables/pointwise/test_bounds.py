"""Gradients of remainders by their divisor."""

from __future__ import annotations

import math

import jax
import pytest

import oplib

PAIRS = [(0.5, 0.1), (1.0, 0.1), (5.0, 3.0), (-5.0, 3.0), (7.5, -2.0), (-7.5, -2.0)]


@pytest.mark.parametrize("name", ["fmod", "remainder"])
@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_a_remainder_is_differentiated_by_the_quotient_that_it_leaves(name: str, x: float, y: float) -> None:
    """In single 0.1 is above a tenth, so 4 of it are in 0.5; torch's fmod counts 5."""
    of, by = oplib.tensor(x), oplib.tensor(y, requires_grad=True)
    getattr(oplib, name)(of, by).backward()
    a, b = float(of.numpy()), float(by.detach().numpy())
    exact = math.fmod(a, b)
    quotient = round((a - exact) / b)
    quotient -= name == "remainder" and exact * y < 0
    assert by.grad is not None
    assert by.grad.item() == -quotient
    assert jax.grad(getattr(oplib, name), 1)(of.array, by.detach().array) == -quotient
