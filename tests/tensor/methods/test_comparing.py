"""Whole tensors compared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentValueError, DataTypeError, DtypeError, TracingError

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.0], [1, 2], True),
        ([1.0, 2.0], [1.0, 2.5], False),
        ([1.0, 2.0], [[1.0, 2.0]], False),
        ([NAN], [NAN], False),
        ([], [], True),
        ([True], [1.0], True),
    ],
)
def test_equal_asks_for_the_same_shape_and_items(first, second, expected):
    assert oplib.equal(oplib.tensor(first), oplib.tensor(second)) is expected
    assert oplib.tensor(first).equal(oplib.tensor(second)) is expected


@pytest.mark.parametrize(
    ("first", "second", "options", "expected"),
    [
        ([1.0], [1.0 + 1e-6], {}, True),
        ([1.0], [1.1], {}, False),
        ([1.0], [1.1], {"rtol": 0.095, "atol": 0.0}, True),  # the tolerance is relative to the second
        ([1.1], [1.0], {"rtol": 0.095, "atol": 0.0}, False),
        ([1.0, 1.0], [[1.0], [1.0]], {}, True),
        ([100], [101], {"rtol": 0.1}, True),
        ([100], [101], {}, False),
        ([True], [True], {}, True),
        ([1 + 1j], [1 + 1j], {}, True),
        ([INF], [INF], {}, True),
        ([INF], [-INF], {}, False),
        ([1.0], [INF], {}, False),
        ([NAN], [NAN], {}, False),
        ([NAN], [NAN], {"equal_nan": True}, True),
        ([], [], {}, True),
    ],
)
def test_allclose_is_relative_to_the_second(first, second, options, expected):
    assert oplib.allclose(oplib.tensor(first), oplib.tensor(second), **options) is expected
    assert oplib.tensor(first).allclose(oplib.tensor(second), **options) is expected


def test_what_requires_grad_is_compared_too():
    x = oplib.ones(2, requires_grad=True)
    assert x.allclose(x)
    assert x.equal(oplib.ones(2))


def test_allclose_does_not_convert():
    with pytest.raises(ArgumentError, match=r"allclose: the dtypes did not match. Got f32\[2\] and i32\[2\]"):
        oplib.allclose(oplib.ones(2), oplib.ones(2, dtype=oplib.int32))


def test_allclose_needs_shapes_that_broadcast():
    with pytest.raises(ArgumentError, match=r"do not broadcast. Got f32\[2\] and f32\[3\]"):
        oplib.allclose(oplib.ones(2), oplib.ones(3))


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_a_negative_tolerance_is_refused(name):
    with pytest.raises(ArgumentValueError, match=f"{name} must be greater than or equal to zero. Got -1"):
        oplib.allclose(oplib.ones(1), oplib.ones(1), **{name: -1})


@pytest.mark.parametrize("compare", [oplib.equal, oplib.allclose])
def test_numbers_and_tracers_are_refused(compare):
    with pytest.raises(DataTypeError, match=r"argument 'other' must be Tensor, or an array. Got float"):
        compare(oplib.ones(1), 1.0)
    with pytest.raises(DataTypeError, match=r"argument 'input' must be Tensor"):
        compare([1.0], oplib.ones(1))
    with pytest.raises(TracingError, match="a traced tensor has no values yet"):
        jax.jit(lambda a: compare(oplib.Tensor.from_array(a), oplib.ones(1)))(oplib.ones(1).array)


@pytest.mark.parametrize("compare", [oplib.equal, oplib.allclose])
@pytest.mark.parametrize("make", [oplib.tensor, jnp.array, lambda items: np.array(items, np.float32)])
def test_arrays_are_compared_as_tensors_are(compare, make):
    for other in (oplib.tensor([1.0, 2.0]), jnp.array([1.0, 2.0]), np.array([1.0, 2.0], np.float32)):
        assert compare(make([1.0, 2.0]), other) is True
        assert compare(other, make([1.0, 3.0])) is False


@pytest.mark.parametrize("compare", [oplib.equal, oplib.allclose])
def test_an_array_of_a_dtype_that_cannot_be_had_is_refused_as_by_the_ops(compare):
    with pytest.raises(DtypeError, match="x64 is off"):
        compare(oplib.ones(1), np.ones(1))
    with pytest.raises(TracingError, match="a traced tensor has no values yet"):
        jax.jit(lambda a: compare(a, oplib.ones(1)))(jnp.ones(1))
