"""Functions whose forward runs once: the gradients of their calls, beside JAX's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib

X, SCALE = jnp.array([0.3, -0.7, 1.1]), jnp.array([0.5, 0.9])


def weigh_items(last, items):
    return (items * items).sum()


def weigh_both(last, items):
    return (last * items[1]).sum()


def compute(scan, tanh, sin, x, scale):
    """Carries a vector over the items of ``x``. The second result depends on the items alone."""
    return scan(lambda carry, item: (tanh(carry * scale + item), sin(item)), scale, x)


def compute_with_jax(loss):
    return lambda x, scale: loss(*compute(jax.lax.scan, jnp.tanh, jnp.sin, x, scale))


def compute_with_oplib(loss, x, scale):
    return loss(*compute(oplib.scan, oplib.tanh, oplib.sin, x, scale))


@pytest.mark.parametrize(
    ("loss", "needs"),
    [(weigh_both, (True, True)), (weigh_both, (False, True)), (weigh_items, (True, False))],
)
def test_each_input_that_requires_it_gets_its_gradient(loss, needs):
    x, scale = (oplib.tensor(v, requires_grad=n) for v, n in zip((X, SCALE), needs, strict=True))
    compute_with_oplib(loss, x, scale).backward()
    expected = jax.grad(compute_with_jax(loss), argnums=(0, 1))(X, SCALE)
    for tensor, value in zip((x, scale), expected, strict=True):
        if tensor.requires_grad:
            np.testing.assert_allclose(tensor.grad.numpy(), value, rtol=1e-5, atol=1e-7)


def test_the_second_derivative_has_the_history_of_the_kept_values():
    x, scale = oplib.tensor(X, requires_grad=True), oplib.tensor(SCALE, requires_grad=True)
    (first,) = oplib.autograd.grad(compute_with_oplib(weigh_both, x, scale), x, create_graph=True)
    got = oplib.autograd.grad((first * first).sum(), (x, scale))

    def square(x, scale):
        return (jax.grad(compute_with_jax(weigh_both))(x, scale) ** 2).sum()

    for value, expected in zip(got, jax.grad(square, argnums=(0, 1))(X, SCALE), strict=True):
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_whole_numbers_among_the_results_have_no_gradient():
    x = oplib.tensor(X, requires_grad=True)
    count, items = oplib.scan(lambda carry, item: (carry + 1, item * item), oplib.tensor(0), x)
    assert not count.requires_grad
    items.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X, rtol=1e-6)
