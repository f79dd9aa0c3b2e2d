"""One trace of a function: what is left of it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

import oplib


def test_a_trace_leaves_no_traced_value_behind():
    weight = oplib.ones(2, requires_grad=True)
    kept = SimpleNamespace(hidden=oplib.zeros(2))

    @oplib.jit
    def step(x):
        loss = (weight * x).sum()
        loss.backward()
        with oplib.no_grad():
            weight.sub_(weight.grad, alpha=0.5)
        weight.grad = None
        kept.hidden = kept.hidden + x
        return loss.detach(), x[:1], oplib.rand(2)

    with jax.checking_leaks():
        for _ in range(2):
            step(oplib.ones(2))
        oplib.jit(lambda x: (x * weight).sin())(oplib.ones(2)).sum().backward()
    assert (weight.tolist(), kept.hidden.tolist()) == ([0.0, 0.0], [2.0, 2.0])
    assert weight.grad.tolist() == [1.0, 1.0]


def test_four_orders_of_a_compiled_call_are_those_of_jax():
    cube = oplib.jit(lambda x: (x * x).sin() * x)
    x = oplib.tensor(0.5, requires_grad=True)
    found, expected = cube(x), lambda x: jnp.sin(x * x) * x
    for _ in range(4):
        (found,) = oplib.autograd.grad(found, x, create_graph=True)
        expected = jax.grad(expected)
        np.testing.assert_allclose(found.item(), expected(0.5), rtol=1e-5)
