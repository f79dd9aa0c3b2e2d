"""Losses of probabilities refuse other numbers if the values are known, and only then."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import ArgumentError
from oplib.nn import functional

LOSS: Any = functional.binary_cross_entropy
NAN = float("nan")


@pytest.mark.parametrize(
    ("input", "target", "text"),
    [
        (
            [0.5, 2.0],
            [1.0, 0.0],
            r"input should be between 0 and 1, .* from 0.5 to 2. Got input f32\[2\], target f32\[2\]",
        ),
        ([-0.1, 0.5], [1.0, 0.0], "input should be between 0 and 1, .* from -0.1 to 0.5"),
        ([NAN, 0.5], [1.0, 0.0], "input should be between 0 and 1, .* from nan to nan"),
        ([0.2, 0.5], [1.5, 0.0], "target should be between 0 and 1, .* from 0 to 1.5"),
    ],
)
@pytest.mark.parametrize("make", [oplib.tensor, jnp.array])
def test_a_number_that_is_no_probability_is_refused_with_its_range(input, target, text, make):  # noqa: A002
    for _ in range(2):  # the complete path, then the fast path
        with pytest.raises(ArgumentError, match=f"binary_cross_entropy: all elements of {text}"):
            LOSS(make(input), make(target))


def test_the_ends_are_probabilities_and_nothing_has_none():
    x = oplib.tensor([0.0, 1.0], requires_grad=True)
    LOSS(x, oplib.tensor([0.0, 1.0])).backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert LOSS(oplib.ones(0), oplib.ones(0), reduction="sum").item() == 0.0
    assert LOSS(oplib.ones(1, dtype=oplib.bfloat16), oplib.ones(1, dtype=oplib.bfloat16)).item() == 0.0


def test_under_a_trace_the_formula_runs():
    traced = jax.jit(LOSS)(jnp.array([2.0]), jnp.array([1.0]))
    assert traced == pytest.approx(-0.6931472)
    assert oplib.vmap(LOSS)(oplib.ones(2, 3) * 2, oplib.ones(2, 3)).shape == (2,)
