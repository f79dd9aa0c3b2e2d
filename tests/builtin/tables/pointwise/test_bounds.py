"""Remainders and their gradients by the divisor, and the larger of two items."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import forward_ad

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


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_the_tangent_of_a_remainder_by_a_number_passes_where_the_quotient_overflows(name: str) -> None:
    find, x, t = getattr(oplib, name), jnp.float32(3e38), jnp.float32(2)
    assert jax.jvp(lambda x: find(x, 0.5), (x,), (t,))[1] == 2
    with forward_ad.dual_level():
        dual = find(forward_ad.make_dual(oplib.tensor(x), oplib.tensor(t)), 0.5)
        tangent = forward_ad.unpack_dual(dual).tangent
    assert tangent is not None
    assert tangent.item() == 2


def test_the_larger_of_two_items_is_xlas_but_for_nan() -> None:
    x, y = [-1e-40, math.nan, 1.0, math.inf, -math.inf], [0.0, 1.0, math.nan, -math.inf, math.inf]
    larger, smaller = (
        find(oplib.tensor(x), oplib.tensor(y)).tolist() for find in (oplib.maximum, oplib.minimum)
    )
    nan = pytest.approx(math.nan, nan_ok=True)
    assert larger == [0.0, nan, nan, math.inf, math.inf]  # comparisons of XLA take -1e-40 for 0
    assert smaller[1:] == [nan, nan, -math.inf, -math.inf]


@pytest.mark.parametrize(("x", "quotient"), [(1.0, math.inf), (-1.0, -math.inf)])
def test_zero_is_in_a_number_infinitely_often(x: float, quotient: float) -> None:
    by = oplib.tensor(0.0, requires_grad=True)
    oplib.fmod(oplib.tensor(x), by).backward()
    assert by.grad is not None
    assert by.grad.item() == -quotient
    assert jax.grad(oplib.fmod, 1)(jnp.float32(x), jnp.float32(0)) == -quotient
