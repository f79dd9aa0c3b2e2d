"""A program belongs to one autocast state: a backward that is traced casts as it does eagerly."""

import numpy as np
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.compiled_autograd import enable

pytestmark = pytest.mark.spec("D.24", "D.25")


def factor_of_state():
    """Returns a number that shows the state in which a backward runs."""
    return 2.0 if oplib.is_autocast_enabled("cpu") else 3.0


class Plain(Function):
    is_traceable = True

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * factor_of_state()


class Marked(Function):
    is_traceable = True

    @staticmethod
    @oplib.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx._own = 1.0
        return x * 1.0

    @staticmethod
    @oplib.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        return grad * ctx._own * factor_of_state()


class OnHost(Marked):
    is_traceable = False


def gradient_of(call, *, forward, backward):
    """Returns the gradient of a call whose forward and backward run with autocast on or off."""
    leaf = oplib.ones(3, requires_grad=True)
    with oplib.autocast("cpu", enabled=forward):
        total = call(leaf).sum()
    with oplib.autocast("cpu", enabled=backward):
        total.backward()
    return leaf.grad.numpy().tolist()


STATES = [(forward, backward) for forward in (False, True) for backward in (False, True)]


@pytest.mark.parametrize("function", [Plain, Marked, OnHost])
def test_a_backward_sees_the_autocast_state_that_it_sees_eagerly(function):
    eager = [gradient_of(function.apply, forward=first, backward=then) for first, then in STATES]
    with enable():
        for _ in range(2):
            found = [gradient_of(function.apply, forward=first, backward=then) for first, then in STATES]
            assert found == eager
    # torch: custom_bwd takes the state of the forward, other backwards have that of the pass
    states = [then if function is Plain else first for first, then in STATES]
    assert eager == [[2.0 if is_on else 3.0] * 3 for is_on in states]


def test_a_formula_that_calls_ops_is_compiled_once_for_each_state(forget_ops, counts):
    @oplib.custom_op("autocast_key::twice", mutates_args=())
    def twice(x: oplib.Tensor) -> oplib.Tensor:
        return x * 2.0

    def differentiate(ctx, grad):
        return grad * factor_of_state()

    twice.register_autograd(differentiate)
    with enable():
        for _ in range(2):
            assert gradient_of(twice, forward=False, backward=False) == [3.0] * 3
            assert gradient_of(twice, forward=False, backward=True) == [2.0] * 3
    assert (counts("captures"), counts("eager")) == (2, 0)


def test_the_dtypes_of_a_formula_are_those_that_its_forward_saved(counts):
    generator = np.random.default_rng(0)
    arrays = [generator.normal(size=(4, 4)).astype(np.float32) for _ in range(2)]

    def run(*, under):
        x, y = (oplib.tensor(array, requires_grad=True) for array in arrays)
        with oplib.autocast("cpu"):
            product = x @ y
        with oplib.autocast("cpu", enabled=under):
            product.float().sum().backward()
        return x.grad

    expected = run(under=False)
    assert expected.dtype == oplib.float32
    with enable():
        for under in (False, True):
            found = run(under=under)
            assert found.dtype == oplib.float32
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2**-6)  # of bfloat16
    assert counts("eager") == 0
