"""An argument annotated ``tuple[X, ...]``: its code gets a tuple, and its gradients may be one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import custom_op

X, Y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
FORMS = {
    "bare tuple": lambda *grads: grads,
    "bare list": lambda *grads: list(grads),
    "tuple of one tuple": lambda *grads: (grads,),
    "tuple of one list": lambda *grads: (list(grads),),
}


def make_dot(array: Any, form: Any, seen: list[type]) -> Any:
    def dot(xs: tuple[array, ...]) -> array:
        seen.append(type(xs))
        return xs[0] * xs[1]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append(type(inputs[0]))
        ctx.save_for_backward(*inputs[0])

    op = custom_op(dot)

    op.register_autograd(
        lambda ctx, g: form(g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]), setup_context=save
    )
    op.register_fake(lambda xs: xs[0])
    return op


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("array", [jax.Array, np.ndarray, oplib.Tensor], ids=lambda own: own.__name__)
def test_the_code_gets_tuples_and_returns_them(array, form):
    seen = []
    op = make_dot(array, FORMS[form], seen)
    tensors = oplib.from_dlpack(X).requires_grad_(), oplib.from_dlpack(Y).requires_grad_()
    for given in (tensors, list(tensors), tensors):
        for tensor in tensors:
            tensor.grad = None
        op(given).sum().backward()
        assert tensors[0].grad is not None
        assert tensors[1].grad is not None
        assert (tensors[0].grad.tolist(), tensors[1].grad.tolist()) == (Y.tolist(), X.tolist())
    grads = jax.jit(jax.grad(lambda xs: op(xs).sum()))((X, Y))
    np.testing.assert_array_equal(grads, (Y, X))
    np.testing.assert_array_equal(jax.vmap(op)((X, Y)), X * Y)
    assert set(seen) == {tuple}


@pytest.mark.slow
def test_a_second_derivative_and_forward_mode_get_tuples_too():
    op = make_dot(oplib.Tensor, FORMS["bare tuple"], [])
    x = oplib.ones(2, requires_grad=True)
    (grad,) = oplib.autograd.grad(op((x, x * x)).sum(), x, create_graph=True)  # x cubed
    assert oplib.autograd.grad(grad.sum(), x)[0].tolist() == [6.0, 6.0]
    arrays = make_dot(jax.Array, FORMS["bare tuple"], [])
    np.testing.assert_allclose(jax.jvp(lambda x: arrays((x, Y)), (X,), (X,))[1], X * Y)
    np.testing.assert_allclose(jax.hessian(lambda x: arrays((x, x)).sum())(X), 2 * np.eye(2), rtol=1e-6)


def test_a_jvp_rule_gets_tuples():
    def double(xs: tuple[jax.Array, ...]) -> jax.Array:
        return 2 * xs[0]

    op, seen = custom_op(double), []

    @op.register_jvp
    def _(primals, tangents):
        seen.append((type(primals[0]), type(tangents[0])))
        return 2 * primals[0][0], 2 * tangents[0][0]

    np.testing.assert_array_equal(jax.jvp(op, ((X, Y),), ((X, Y),))[1], 2 * X)
    assert set(seen) == {(tuple, tuple)}


def test_one_item_optional_items_defaults_and_numbers_are_tuples():
    def pick(
        xs: tuple[jax.Array | None, ...], shape: tuple[int, ...] = (2, 1), axes: tuple[int, ...] = (0,)
    ) -> jax.Array:
        assert {type(xs), type(shape), type(axes)} == {tuple}
        return xs[0].reshape(shape)

    op = custom_op(pick)
    op.register_autograd(lambda ctx, g: ((g.reshape(2), *[None] * (len(ctx.needs_input_grad[0]) - 1)), None))
    assert jax.grad(lambda x: op((x,)).sum())(X).tolist() == [1.0, 1.0]
    assert jax.grad(lambda x: op([x, None], [1, 2]).sum())(X).tolist() == [1.0, 1.0]
    x = oplib.ones(2, requires_grad=True)
    op((x, None), [1, 2], axes=[0]).sum().backward()
    assert x.grad is not None


def test_a_list_keeps_lists():
    def double(xs: list[jax.Array], y: jax.Array) -> jax.Array:
        assert type(xs) is list
        return 2 * xs[0]

    op = custom_op(double)
    op.register_autograd(lambda ctx, g: ((2 * g,), None))
    with pytest.raises(oplib.errors.AutogradError, match="Return a list of 1"):
        jax.grad(lambda x: op((x,), x).sum())(X)
    assert custom_op(double, schema="(Tensor[] xs, Tensor y) -> Tensor")((X,), X).tolist() == [2.0, 4.0]


def test_written_items_are_a_tuple(forget_ops):
    @custom_op("tuples::double", mutates_args=("xs",))
    def double(xs: tuple[np.ndarray, ...]) -> None:
        assert type(xs) is tuple
        for x in xs:
            x *= 2

    x, y = oplib.ones(2), oplib.ones(2)
    double((x, y))
    assert (x.tolist(), y.tolist()) == ([2.0, 2.0], [2.0, 2.0])
