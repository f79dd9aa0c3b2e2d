"""Kernels for Tensors in a trace, where JAX's transformations find the rules of the op."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import custom_op

X = np.array([[0.3, -0.7], [1.1, 0.2]], np.float32)


@pytest.fixture(scope="module")
def sine_and_twice():
    """An op whose kernel takes Tensors. Its formula is ten times the true one, so that its use shows."""

    @custom_op("eager::sine_and_twice")
    def sine_and_twice(x: oplib.Tensor) -> tuple[oplib.Tensor, oplib.Tensor]:
        return x.sin(), x * 2

    sine_and_twice.register_autograd(
        lambda ctx, sine, twice: 10 * (sine * ctx.saved_tensors[0].cos() + 2 * twice),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return sine_and_twice


@pytest.mark.parametrize("run", [lambda f: f, oplib.vmap, oplib.jit, lambda f: oplib.jit(oplib.vmap(f))])
def test_results_in_a_trace_are_tensors_with_the_values_of_the_kernel(sine_and_twice, run):
    sine, twice = run(lambda row: sine_and_twice(row))(oplib.tensor(X))
    assert type(sine) is type(twice) is oplib.Tensor
    np.testing.assert_allclose(sine.numpy(), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(twice.numpy(), 2 * X, rtol=1e-6)


@pytest.mark.parametrize("run", [lambda f: f, oplib.vmap, oplib.jit])
def test_gradients_in_a_trace_come_from_the_formula(sine_and_twice, run):
    def loss(row):
        sine, twice = sine_and_twice(row)
        return (sine + 3 * twice).sum(-1)

    x = oplib.tensor(X, requires_grad=True)
    run(loss)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 10 * (np.cos(X) + 6), rtol=1e-6)
    by_jax = jax.grad(lambda array: loss(oplib.Tensor.from_array(array)).array.sum())
    np.testing.assert_allclose(by_jax(jnp.array(X)), 10 * (np.cos(X) + 6), rtol=1e-6)
