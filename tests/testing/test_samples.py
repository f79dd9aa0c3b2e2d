"""Samples of calls: added ones, and ones that fit a schema."""

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentValueError, OpCheckError, UnknownOperatorError
from oplib.library import custom_op, opcheck
from oplib.library.op_objects.overload import find_overload
from oplib.testing import Call, add_samples, samples
from oplib.testing.samples import _makers, make_samples_error


@pytest.fixture(autouse=True)
def forget_samples(forget_ops):
    before = dict(_makers)
    yield
    _makers.clear()
    _makers.update(before)


def test_a_schema_is_filled_by_its_types_and_defaults():
    arguments = "Tensor x, Tensor? y, Tensor[] xs, int n, float a, bool b, *, str mode='up', int[2] k"
    call = samples(f"demo::f({arguments}) -> Tensor")[0]
    x, y, xs, n, a, b = call.args
    assert [tuple(value.shape) for value in (x, y, *xs)] == [(3, 4)] * 4
    assert (n, a, b, dict(call.kwargs)) == (1, 0.5, True, {"mode": "up", "k": [1, 1]})
    assert x.requires_grad


def test_shapes_and_the_dtype_can_be_named():
    call = samples("demo::f(Tensor x, Tensor y) -> Tensor", shapes={"y": (2, 7)}, dtype=oplib.float16)[0]
    assert tuple(call.args[1].shape) == (2, 7)
    assert call.args[0].dtype == oplib.float16


def test_an_unknown_name_of_a_shape_is_refused():
    with pytest.raises(ArgumentValueError, match=r"names 'z', which is no tensor argument\. Those are x"):
        samples("demo::f(Tensor x) -> Tensor", shapes={"z": (2,)})


def test_a_type_that_nothing_is_known_of_has_no_sample():
    assert samples("demo::f(Tensor x, Any thing) -> Tensor") == []


@pytest.mark.parametrize(
    "name", ["oplib::matmul", "oplib::sin", "oplib::bitwise_not", "oplib::linalg_inv", "oplib::outer"]
)
def test_the_op_accepts_what_is_made_for_it(name):
    call = samples(name)[0]
    result = find_overload(name)(*call.args, **call.kwargs)
    assert isinstance(result, oplib.Tensor)
    assert result.numel() > 0


def test_equal_seeds_make_equal_numbers():
    first, second, other = (samples("oplib::sin", seed=seed)[0].args[0].array for seed in (1, 1, 2))
    assert (first == second).all()
    assert not (first == other).all()


def test_a_kernel_on_the_host_is_tried_by_running_it():
    seen = []

    @custom_op("samples::square")
    def square(x: np.ndarray) -> np.ndarray:
        seen.append(x.shape)
        if x.ndim != 2 or x.shape[0] != x.shape[1]:
            raise ValueError("not square")
        return x

    assert tuple(samples(square)[0].args[0].shape) == (3, 3)
    assert seen[:2] == [(3, 4), (4,)]


def test_the_refusal_of_an_op_that_accepts_nothing_has_its_error_as_cause():
    @custom_op("samples::refusing")
    def refusing(x: jax.Array) -> jax.Array:
        raise ValueError("never")

    @custom_op("samples::strange")
    def strange(x: jax.Array, way: object) -> jax.Array:
        return x

    assert samples(refusing) == samples(strange) == []
    refusal = make_samples_error(find_overload("samples::refusing", subject="test"))
    assert isinstance(refusal, OpCheckError)
    assert isinstance(refusal.__cause__, ValueError)
    assert "refusing: raises for all arguments that were tried. Got ValueError for (f32[3,4])" in str(refusal)
    assert make_samples_error(find_overload("samples::strange", subject="test")) is None


def test_added_samples_come_before_made_ones():
    @custom_op("samples::third")
    def third(x: jax.Array, *, by: int = 3) -> jax.Array:
        return x / by

    @add_samples(third)
    def make():
        yield (oplib.ones(7),)
        yield Call((oplib.ones(2),), {"by": 4})

    first, second = samples("samples::third")
    assert tuple(first.args[0].shape) == (7,)
    assert second.kwargs == {"by": 4}
    for call in (first, second):
        opcheck(third, call.args, call.kwargs, test_utils="test_schema")


def test_wrong_samples_are_refused():
    @custom_op("samples::half")
    def half(x: jax.Array) -> jax.Array:
        return x / 2

    add_samples(half, lambda: [oplib.ones(2)])
    with pytest.raises(ArgumentValueError, match=r"a sample is a tuple of arguments.*Got Tensor"):
        samples(half)
    with pytest.raises(UnknownOperatorError):
        add_samples("samples::nowhere", list)
