"""Comparison of values for tests, beside torch's where torch is there."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentValueError, OpMismatchError
from oplib.testing import assert_close

EQUAL = [
    (1.0, 1.0),
    (np.float32(1), np.float32(1 + 1e-6)),
    (np.inf, np.inf),
    (-np.inf, -np.inf),
    ([1, 2], [1, 2]),
    (np.zeros(0, np.float32), np.zeros(0, np.float32)),
]
DIFFERENT = [
    (1.0, 1.0 + 1e-5),
    (np.float32(1), np.float32(1 + 1e-4)),
    (np.inf, -np.inf),
    (np.nan, np.nan),
    (1, 2),
    ([1, 2], [1, 3]),
    (np.zeros(2, np.float32), np.zeros(3, np.float32)),
    (np.zeros(2, np.float32), np.zeros(2, np.float64)),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_close_values_pass(left, right):
    assert_close(left, right)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_values_raise(left, right):
    with pytest.raises(AssertionError):
        assert_close(left, right)


@pytest.mark.parametrize(("left", "right"), EQUAL + DIFFERENT)
def test_the_verdict_is_that_of_torch(left, right):
    testing = pytest.importorskip("torch").testing

    def verdict(compare, convert):
        try:
            compare(*(convert(value) for value in (left, right)))
        except AssertionError:
            return False
        return True

    torch = pytest.importorskip("torch")

    def as_torch(value):
        return value if isinstance(value, list) else torch.as_tensor(np.asarray(value))

    assert verdict(assert_close, lambda value: value) == verdict(testing.assert_close, as_torch)


def test_a_tensor_may_stand_for_an_array():
    assert_close(oplib.ones(2), jnp.ones(2))
    assert_close({"a": oplib.ones(2)}, {"a": jnp.ones(2)})


def test_the_leaf_the_worst_entry_and_both_values_are_named():
    with pytest.raises(
        OpMismatchError, match=r"\['w'\]\[1\] differs: .*at \[0, 2\] is 1 and 3.*2 of 6 entries"
    ):
        assert_close({"w": [1.0, oplib.ones(2, 3)]}, {"w": [1.0, oplib.tensor([[1.0, 1, 3], [2, 1, 1]])]})


def test_a_field_of_a_dataclass_is_named():
    @dataclass
    class Pair:
        left: float
        right: float

    with pytest.raises(OpMismatchError, match="right"):
        assert_close(Pair(1.0, 2.0), Pair(1.0, 3.0))


def test_trees_of_other_structure_are_refused():
    with pytest.raises(OpMismatchError, match="different structures"):
        assert_close({"a": 1.0}, {"b": 1.0})


def test_the_options():
    assert_close(1.0, 1.1, rtol=0.2, atol=0.0)
    assert_close(float("nan"), float("nan"), equal_nan=True)
    assert_close(np.float32(1), np.float64(1), check_dtype=False)
    with pytest.raises(ArgumentValueError, match="belong together"):
        assert_close(1.0, 1.0, rtol=0.1)


def test_values_that_are_no_numbers_are_compared_by_equality():
    assert_close(["a", None], ["a", None])
    with pytest.raises(OpMismatchError, match="'a' and 'b'"):
        assert_close("a", "b")
