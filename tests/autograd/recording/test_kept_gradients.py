"""Gradients that formulas without residuals make of shared arrays are kept, and belong to no Tensor alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib


def test_the_gradient_of_a_sum_is_made_once():
    grads = []
    for _ in range(3):
        x = oplib.arange(6.0).reshape(2, 3).requires_grad_()
        (-x.sum()).backward()
        grads.append(x.grad._storage.array)
        assert x.grad.tolist() == [[-1.0] * 3] * 2
    assert grads[1] is grads[2]


def test_passes_that_start_with_another_number_get_their_own_gradient():
    x = oplib.ones(4, requires_grad=True)
    for start in (None, 2.0, None, 3.0):  # the gradient of the first is kept
        x.grad = None
        x.mean().backward(start and oplib.tensor(start))
        assert x.grad.tolist() == [(start or 1.0) / 4] * 4


def test_a_write_into_a_gradient_reaches_no_other_pass():
    x = oplib.ones(3, requires_grad=True)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    first.mul_(5.0)
    x.grad = None
    x.sum().backward()
    assert first.tolist() == [10.0] * 3
    assert x.grad.tolist() == [1.0] * 3


def test_a_gradient_that_leaves_oplib_can_be_donated():
    x = oplib.ones(5, requires_grad=True)
    for _ in range(3):
        x.grad = None
        x.sum().backward()
        jax.jit(lambda g: g + 1, donate_argnums=0)(x.grad.array).block_until_ready()
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0] * 5


def test_the_gradient_of_a_scalar_leaf_can_be_donated():
    for _ in range(3):
        x = oplib.tensor(2.0, requires_grad=True)
        x.clone().backward()
        assert x.grad.item() == 1.0
        jax.jit(lambda g: g + 1, donate_argnums=0)(x.grad.array).block_until_ready()


def test_a_gradient_that_a_program_donates_stays_for_the_next_pass():
    x = oplib.ones(5, requires_grad=True)

    @oplib.jit
    def grow():
        x.grad.add_(1.0)

    for _ in range(3):
        x.grad = None
        x.sum().backward()
        grow()
        assert x.grad.tolist() == [2.0] * 5


def test_a_trace_computes_the_gradient_and_holds_no_array_of_it():
    def find_gradient(array):
        x = oplib.Tensor.from_array(array).requires_grad_()
        x.sum().backward()
        return x.grad.array

    array = jnp.ones(7)
    for _ in range(3):
        assert np.array_equal(find_gradient(array), np.ones(7))
    traced = jax.make_jaxpr(find_gradient)(array)
    assert all(np.size(one) <= 1 for one in traced.consts)
    assert np.array_equal(jax.jit(find_gradient)(array), np.ones(7))
    assert np.array_equal(find_gradient(array), np.ones(7))


def test_large_gradients_are_not_kept():
    found = []
    for _ in range(3):
        x = oplib.ones(100, 100, requires_grad=True)
        x.sum().backward()
        found.append(x.grad._storage.array)
    assert found[1] is not found[2]


@pytest.mark.devices(2)
def test_the_gradient_is_on_the_default_device():
    for device in (*jax.devices()[:2], *jax.devices()[:2]):
        with jax.default_device(device):
            x = oplib.ones(3, requires_grad=True)
            x.sum().backward()
            assert x.grad.array.devices() == {device}


def test_a_backward_with_an_effect_runs_in_each_pass(forget_ops):
    calls = []

    @jax.custom_vjp
    def total(x):
        return x.sum()

    def pull(shape, g):
        jax.debug.callback(lambda: calls.append(1))
        return (jnp.broadcast_to(g, shape),)

    total.defvjp(lambda x: (x.sum(), x.shape), pull)

    @oplib.custom_op("kept_gradients::total", autograd="derive")
    def op(x: jax.Array) -> jax.Array:
        return total(x)

    for _ in range(3):
        x = oplib.ones(4, requires_grad=True)
        op(x).backward()
        assert x.grad.tolist() == [1.0] * 4
    jax.effects_barrier()
    assert len(calls) == 3
