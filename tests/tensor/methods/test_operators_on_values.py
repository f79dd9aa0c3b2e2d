"""Operators on values, beside numpy's: each with a tensor and with a number, on both sides and in place."""

import operator

import numpy as np
import pytest

import oplib

X, Y = np.array([7, -9, 12, 5], np.int32), np.array([2, 4, 3, 1], np.int32)
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
    operator.xor, operator.lshift, operator.rshift, operator.truediv, operator.pow,
]  # fmt: skip
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.ifloordiv, operator.imod, operator.iand,
    operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.ipow,
]  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda one: one.__name__)
def test_an_operator_computes_what_that_of_numpy_does(apply):
    x, y = oplib.tensor(X), oplib.tensor(Y)
    np.testing.assert_allclose(apply(x, y).numpy(), apply(X, Y), rtol=1e-6)
    np.testing.assert_allclose(apply(x, 2).numpy(), apply(X, 2), rtol=1e-6)
    np.testing.assert_allclose(apply(9, y).numpy(), apply(9, Y), rtol=1e-6)


@pytest.mark.parametrize("apply", IN_PLACE, ids=lambda one: one.__name__)
def test_an_operator_in_place_writes_into_the_tensor(apply):
    for other in (Y, 3):
        x, expected = oplib.tensor(X), X.copy()
        result = apply(x, oplib.tensor(other) if other is Y else other)
        assert result is x
        assert (x.tolist(), x._version) == (apply(expected, other).tolist(), 1)
        with pytest.raises(TypeError):
            apply(x, "text")


def test_signs_and_complements_are_those_of_numpy():
    for apply in (operator.neg, operator.pos, operator.abs, operator.invert):
        assert apply(oplib.tensor(X)).tolist() == apply(X).tolist()
    assert (~oplib.tensor([True, False])).tolist() == [False, True]
