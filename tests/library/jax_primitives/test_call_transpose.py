"""``jax.linear_transpose`` of an op is its formula, or its transposed derivative, at known values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import AutogradError
from oplib.library import custom_op
from oplib.library.registration.custom_op_def import CustomOpDef

X, W, G = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.5, 2.0, -1.0]), jnp.array([1.0, 3.0, -2.0])

pytestmark = pytest.mark.spec("D.32")


def save_all(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output)


def make(formula: Callable[..., Any] | None = None, **options: Any) -> CustomOpDef:
    """Registers a product; a formula is scaled by 7, so that it shows."""

    @custom_op("transposes::product", **options)
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    if formula is not None:
        product.register_autograd(formula, setup_context=save_all)
    return product


def backward(ctx: Any, grad: Any) -> tuple[Any, Any]:
    x, w, _ = ctx.saved_tensors
    return 7 * grad * w, 7 * grad * x


FORMS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda f: f,
    "in jit": jax.jit,
    "mapped": lambda f: lambda x, w: jax.vmap(f, (0, None))(x[None], w)[0],
    "in a checkpoint": jax.checkpoint,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_it_is_the_formula(form: Any) -> None:
    op = form(make(backward))
    (by_x,) = jax.linear_transpose(lambda x: op(x, W), X)(G)
    (by_w,) = jax.jit(lambda g: jax.linear_transpose(lambda w: op(X, w), W)(g))(G)
    np.testing.assert_allclose(by_x, 7 * G * W, rtol=1e-6)
    np.testing.assert_allclose(by_w, 7 * G * X, rtol=1e-6)


def test_it_is_the_transposed_kernel_of_a_derived_op() -> None:
    op = make(autograd="derive")
    np.testing.assert_allclose(jax.linear_transpose(lambda x: op(x, W), X)(G)[0], G * W, rtol=1e-6)


def test_it_is_the_transposed_kernel_of_an_op_with_a_jvp_rule_as_of_a_custom_jvp() -> None:
    def push(p: Any, t: Any) -> Any:
        return p[0] * p[1], 5 * (t[0] * p[1] + p[0] * t[1])

    op, by_hand = make(), jax.custom_jvp(lambda x, w: x * w)
    op.register_jvp(push)
    by_hand.defjvp(push)
    found, due = (jax.linear_transpose(partial(f, w=W), X)(G)[0] for f in (op, by_hand))
    np.testing.assert_allclose(found, due, rtol=1e-6)
    with pytest.raises(
        AutogradError,
        match=r"transposes::product: the call cannot be transposed in operand 'x' and 'w': 'mul'",
    ):
        jax.linear_transpose(op, X, W)(G)


def test_a_formula_that_reads_a_transposed_operand_raises() -> None:
    op = make(backward)
    with pytest.raises(
        AutogradError, match=r"the backward formula reads 'x', which is transposed. Take jax.vjp"
    ):
        jax.linear_transpose(op, X, W)(G)

    @custom_op("transposes::cube")
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    cube.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=save_all)
    with pytest.raises(AutogradError, match=r"transposes::cube: .* reads 'x', which is transposed"):
        jax.linear_transpose(cube, X)(G)


@pytest.mark.parametrize("saved", ["a result", "a value that was computed from transposed operands"])
def test_a_formula_that_reads_what_depends_on_one_raises(saved: str) -> None:
    @custom_op("transposes::exp")
    def exp(x: jax.Array) -> jax.Array:
        return jnp.exp(x)

    exp.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(
            output if saved == "a result" else jnp.exp(inputs[0])
        ),
    )
    with pytest.raises(AutogradError, match=rf"transposes::exp: .* reads {saved}"):
        jax.linear_transpose(exp, X)(G)


def test_a_saved_operand_that_is_not_read_is_allowed() -> None:
    op = make(lambda ctx, g: (7 * g * ctx.saved_tensors[1], None))
    np.testing.assert_allclose(jax.linear_transpose(lambda x: op(x, W), X)(G)[0], 7 * G * W, rtol=1e-6)


def test_one_of_several_results_may_have_no_cotangent() -> None:
    @custom_op("transposes::both")
    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return 2 * x, 3 * x

    both.register_autograd(lambda ctx, a, b: 2 * a + 3 * b)
    np.testing.assert_allclose(jax.linear_transpose(both, X)((G, W))[0], 2 * G + 3 * W, rtol=1e-6)
    np.testing.assert_allclose(jax.linear_transpose(lambda x: both(x)[1], X)(G)[0], 3 * G, rtol=1e-6)
