"""Functions of users inside JAX's transformations: the tape runs there as ever."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, grad

pytestmark = pytest.mark.spec("D.13")

A = jnp.array([1.0, 3.0])


class Tripled(Function):
    """Squares, with three times the gradient, so that a result tells which rule ran."""

    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        ctx.factor = 3.0
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return g * 2 * x * ctx.factor


class Written(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(5.0)

    @staticmethod
    def backward(ctx, g):
        return g * 5.0


def by_grad(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    return grad(Tripled.apply(leaf).sum(), leaf)[0].array


def by_backward(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    Tripled.apply(leaf).sum().backward()
    return leaf.grad.array


def twice(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    (first,) = grad(Tripled.apply(leaf).sum(), leaf, create_graph=True)
    return grad(first.sum(), leaf)[0].array


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint, lambda f: jax.vmap(jax.jit(f))])
@pytest.mark.parametrize(("step", "expected"), [(by_grad, 6 * A), (by_backward, 6 * A), (twice, 0 * A + 6)])
def test_the_backward_of_the_user_runs_under_a_transformation(step, expected, wrap):
    assert wrap(step)(A).tolist() == expected.tolist()


def test_a_pass_that_jax_differentiates_is_differentiated_through_the_backward():
    assert jax.grad(lambda a: by_grad(a).sum())(A).tolist() == [6.0, 6.0]
    assert jax.jvp(by_backward, (A,), (jnp.ones(2),))[1].tolist() == [6.0, 6.0]


def test_a_pass_is_a_step_of_a_scan():
    def step(carry, a):
        return carry + by_grad(a).sum(), by_grad(a)

    total, rows = jax.lax.scan(step, jnp.array(0.0), jnp.stack([A, 2 * A]))
    assert rows.tolist() == [[6.0, 18.0], [12.0, 36.0]]
    assert total == 72.0


def test_what_jax_differentiates_by_itself_is_the_forward():
    def forward(array):
        return Tripled.apply(oplib.Tensor.from_array(array)).array.sum()

    assert jax.grad(forward)(A).tolist() == [2.0, 6.0]
    assert jax.jit(jax.grad(forward))(A).tolist() == [2.0, 6.0]


def test_a_written_input_is_written_in_the_trace():
    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        h = leaf * 1
        assert Written.apply(h) is h
        return h.array, grad(h.sum(), leaf)[0].array

    value, slope = jax.jit(step)(A)
    assert value.tolist() == [5.0, 15.0]
    assert slope.tolist() == [5.0, 5.0]


def test_a_traced_gradient_does_not_reach_a_tensor_from_outside():
    outside = oplib.ones(2, requires_grad=True)

    def step(array):
        (Tripled.apply(outside) * oplib.Tensor.from_array(array)).sum().backward()
        return array

    with pytest.raises(RuntimeError, match="made outside this trace"):
        jax.jit(step)(A)
    assert outside.grad is None
