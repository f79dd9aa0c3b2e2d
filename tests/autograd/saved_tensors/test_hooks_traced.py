"""Hooks for saved tensors under transformations, JAX's and oplib's."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd.graph import saved_tensors_hooks


@pytest.mark.spec("000.14")
def test_hooks_work_under_a_trace():
    def step(value):
        a = oplib.Tensor.from_array(value, requires_grad=True)
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (a * a).sum()
        return oplib.autograd.grad(y, a)[0].array

    assert jax.jit(step)(jnp.array([3.0])).tolist() == [6.0]


# Transformations. There is no grad transform of ours that would have to refuse hooks, as torch.func.grad
# does: maps and forward mode allow them, and what JAX saves for a derivative of its own is no saved tensor.


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("place", ["around", "inside"])
def test_a_map_allows_hooks(hooks, place):
    rows = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    def square(row):
        if place == "around":
            return (row * row).sum()
        with saved_tensors_hooks(lambda tensor: tensor * 2, lambda kept: kept / 2):
            return (row * row).sum()

    if place == "around":
        with hooks():
            y = oplib.vmap(square)(rows)
        assert hooks.packed
    else:
        y = oplib.vmap(square)(rows)
    y.sum().backward()
    assert rows.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]


@pytest.mark.spec("000.14")
def test_forward_mode_allows_hooks_and_saves_nothing_for_itself(hooks):
    with hooks(), oplib.autograd.forward_ad.dual_level():
        x = oplib.autograd.forward_ad.make_dual(oplib.tensor([3.0]), oplib.ones(1))
        tangent = oplib.autograd.forward_ad.unpack_dual(x * x).tangent
    assert tangent.tolist() == [6.0]
    assert not hooks.packed


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("differentiate", [jax.grad, jax.jacfwd])
def test_hooks_around_a_derivative_of_jaxs_do_not_see_it(hooks, differentiate):
    with hooks():
        found = differentiate(lambda x: oplib.exp(x) * x)(jnp.float32(0.0))
    assert found == 1.0
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_a_tape_inside_a_derivative_of_jaxs_packs(hooks):
    def slope(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        with hooks():
            y = x * x * x
        return oplib.autograd.grad(y, x)[0].array

    assert jax.grad(slope)(jnp.float32(2.0)) == 12.0
    assert len(hooks.packed) == 4
