"""Elementary functions of large and small numbers."""

from __future__ import annotations

import math

import pytest

import oplib


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e20, 1e37])
def test_a_hypotenuse_neither_overflows_nor_vanishes(scale: float) -> None:
    x = oplib.tensor(3 * scale, requires_grad=True)
    length = oplib.hypot(x, oplib.tensor(4 * scale))
    length.backward()
    assert length.item() == pytest.approx(math.hypot(3 * scale, 4 * scale), rel=1e-6)
    assert x.grad is not None
    assert x.grad.item() == pytest.approx(0.6, rel=1e-6)


def test_a_hypotenuse_with_an_infinite_side_is_infinite() -> None:
    sides = oplib.tensor([math.inf, math.nan]), oplib.tensor([math.nan, -math.inf])
    assert oplib.hypot(*sides).tolist() == [math.inf, math.inf]
