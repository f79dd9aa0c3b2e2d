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
    "does not depend on g, the incoming gradient: multiply by it": lambda x, g: jnp.cos(x),
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


def test_a_formula_without_g_of_one_result_or_of_equal_columns_is_no_such_case(with_64_bits, forget_ops):
    x = oplib.tensor([0.3, 0.7], requires_grad=True)
    for kernel, formula in [
        (lambda x: jnp.sum(x * x), lambda x, g: g * x),
        (lambda x: jnp.broadcast_to(jnp.sum(x * x), 2), lambda x, g: jnp.sum(g) * x),
        (jnp.sin, lambda x, g: jnp.zeros_like(x)),
    ]:
        with pytest.raises(GradcheckError) as caught:
            gradcheck(make_op(formula, kernel), (x,))
        assert "depend on g" not in str(caught.value)


@pytest.mark.parametrize("check", [gradcheck, oplib.autograd.gradgradcheck])
def test_a_captured_tensor_in_single_precision_that_does_not_fit_is_named(check, with_64_bits):
    w, a = oplib.ones(2, 2, dtype=oplib.float32), oplib.ones(2, dtype=oplib.float64, requires_grad=True)
    with pytest.raises(
        oplib.errors.ArgumentError, match=r"captures w f32\[2,2\].* an argument, or"
    ) as caught:
        check(lambda a: (w @ a) ** 2, (a,))
    assert len(str(caught.value)) <= 400
    assert gradcheck(lambda a: (w.double() @ a) ** 2, (a,))
    assert gradcheck(lambda w, a: (w @ a) ** 2, (w, a))
    with pytest.raises(oplib.errors.ArgumentError) as caught:  # an error of another kind stays as it is
        check(lambda a: (w.double() @ a[:1]) ** 2, (a,))
    assert "captures" not in str(caught.value)


def test_a_write_into_a_captured_tensor_in_single_precision_is_named(with_64_bits, forget_ops):
    w, a = oplib.ones(2, dtype=oplib.float32), oplib.ones(2, dtype=oplib.float64, requires_grad=True)

    def write(w, a):
        kept = w.clone()
        kept[0] = a[0]
        return kept * a

    with pytest.raises(
        GradcheckError, match=r"captures w f32\[2\], where .* rounded. .* an argument"
    ) as caught:
        gradcheck(lambda a: write(w, a), (a,))
    assert len(str(caught.value).partition("\n")[0]) <= 400
    assert gradcheck(write, (w, a))
    op = make_op(lambda x, g: 3 * g, kernel=lambda x: 2 * x)  # a true mistake keeps its own diagnosis
    with pytest.raises(GradcheckError, match="a factor is missing"):
        gradcheck(lambda a: op(a) * w, (a,))


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
