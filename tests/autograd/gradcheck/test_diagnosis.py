"""The first diagnosis of a wrong gradient: each mistake is made in a formula, and is named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import gradcheck
from oplib.errors import GradcheckError
from oplib.library import custom_op

MISTAKES = {
    "2 times the finite differences: a factor is missing": lambda x, g: 2 * g * jnp.cos(x),
    "opposite sign": lambda x, g: -g * jnp.cos(x),
    "gives zero at 2 entries that are not: a term is absent": lambda x, g: (g * jnp.cos(x)).at[1].set(0),
    "same numbers at other entries": lambda x, g: (g * jnp.cos(x)).T[::-1],
    "infinity or a nan": lambda x, g: g * jnp.cos(x) / 0,
}


def make_op(backward, kernel=jnp.sin):
    @custom_op(f"diagnosis::f{len(oplib.ops.diagnosis.__dir__())}")
    def f(x: jax.Array) -> jax.Array:
        return kernel(x)

    f.register_autograd(
        lambda ctx, g: backward(ctx.saved_tensors[0], g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return f


@pytest.mark.parametrize("told", MISTAKES)
def test_a_mistake_is_named(told, with_64_bits, forget_ops):
    x = oplib.tensor([[0.3, 0.7], [1.1, 0.2]], requires_grad=True)
    with pytest.raises(GradcheckError, match=told):
        gradcheck(make_op(MISTAKES[told]), (x,))


def test_a_transposed_jacobian_is_named(with_64_bits, forget_ops):
    matrix = jnp.array([[1.0, 2.0], [5.0, 4.0]])
    op = make_op(lambda x, g: matrix @ g, kernel=lambda x: matrix @ x)
    with pytest.raises(GradcheckError, match="transposed Jacobian"):
        gradcheck(op, (oplib.tensor([0.3, 0.7], requires_grad=True),))


def test_a_straight_through_formula_is_named(with_64_bits, forget_ops):
    op = make_op(lambda x, g: g, kernel=jnp.round)
    with pytest.raises(GradcheckError, match="surrogate=True"):
        gradcheck(op, (oplib.tensor([0.3, 0.7], requires_grad=True),))


def test_the_error_has_both_jacobians(with_64_bits, forget_ops):
    op = make_op(lambda x, g: 3 * g, kernel=lambda x: 2 * x)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(op, (oplib.tensor([0.3, 0.7], requires_grad=True),))
    numerical, analytical = caught.value.jacobians
    np.testing.assert_allclose(numerical, 2 * np.eye(2), atol=1e-6)
    np.testing.assert_allclose(analytical, 3 * np.eye(2), atol=1e-6)


def test_other_mistakes_get_no_diagnosis(with_64_bits, forget_ops):
    op = make_op(lambda x, g: g * (1 + x), kernel=jnp.sin)
    with pytest.raises(GradcheckError, match=r"numerical value\. Correct the backward"):
        gradcheck(op, (oplib.tensor([0.3, 0.7], requires_grad=True),))
