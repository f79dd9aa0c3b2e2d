"""Control flow under ``jax.checking_leaks()``: a body keeps no value of its trace."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd.graph import increment_version
from oplib.errors import TracingError

X = oplib.tensor([1.0, 2.0])


def scan(weight):
    return oplib.scan(lambda carry, x: (carry * x + weight, carry), oplib.tensor(1.0), X)[0]


def while_loop(weight):
    return oplib.while_loop(lambda x: x < 10.0, lambda x: x * weight.detach() + 1.0, oplib.tensor(1.0))


def cond(weight):
    return oplib.cond(oplib.tensor(True), lambda x: (x * weight).sum(), lambda x: x.sum(), X)


@pytest.mark.parametrize("function", [scan, while_loop, cond])
@pytest.mark.parametrize("needs", [True, False])
def test_a_body_keeps_no_value_of_its_trace(function, needs):
    def run(call):
        weight = oplib.tensor(3.0, requires_grad=needs)
        result = call(function)(weight)
        if result.requires_grad and function is not while_loop:
            result.backward()
        return result.item(), None if weight.grad is None else weight.grad.item()

    due = run(lambda f: f)
    with jax.checking_leaks():
        assert run(lambda f: f) == due
        assert run(oplib.jit) == due


def test_a_body_finds_a_traced_value_of_the_function_around_it():
    def outer(array):
        weight = oplib.Tensor.from_array(array)
        return oplib.scan(lambda carry, x: (carry * weight + x, carry), oplib.tensor(1.0), X)[0].array

    with jax.checking_leaks():
        assert jax.grad(outer)(jnp.array(3.0)) == 7.0
        assert jax.jit(outer)(jnp.array(3.0)) == 14.0


def test_a_body_may_not_count_a_version_of_a_tensor_outside():
    weight = oplib.tensor(3.0)

    def step(carry, x):
        increment_version(weight)
        return carry * x + weight, carry

    with pytest.raises(TracingError, match=r"writes into a Tensor that it captures. Got f32\[\]"):
        oplib.scan(step, oplib.tensor(1.0), X)
    assert weight._version == 0
