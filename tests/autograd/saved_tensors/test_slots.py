"""The values that a node of a formula saves, and where each of them came from."""

import jax
import jax.numpy as jnp
import pytest

import oplib


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid"])
def test_a_saved_output_has_its_history_in_the_second_derivative(name):
    function = {"exp": jnp.exp, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}[name]
    x = oplib.tensor([0.3, -0.7], requires_grad=True)
    (first,) = oplib.autograd.grad(getattr(oplib, name)(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    expected = jax.vmap(jax.grad(jax.grad(function)))(jnp.array([0.3, -0.7]))
    assert second.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
