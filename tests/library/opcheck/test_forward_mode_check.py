"""opcheck finds jvp rules that are wrong, and ops that are not linear."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import OpCheckError, OpMismatchError
from oplib.library import custom_op, opcheck

from .checked_ops import assert_fails, make_op, square_formula


def test_a_jvp_rule_that_contradicts_the_formula_is_caught(x):
    op = make_op()
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    assert_fails(
        op, (x,), "test_forward_mode", OpMismatchError, "forward mode and the backward contradict each other"
    )


def test_a_wrong_jvp_rule_without_a_formula_is_caught():
    op = make_op(formula=None)
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    assert_fails(op, (jnp.ones(2),), "test_forward_mode", OpMismatchError, "the jvp rule is wrong")
    op = make_op(formula=None)
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
    assert opcheck(op, (jnp.ones(2),), test_utils="test_forward_mode")


@pytest.mark.parametrize("formula", [None, square_formula], ids=["alone", "beside a formula"])
def test_a_jvp_rule_with_other_results_than_the_op_is_caught(formula):
    args, text = (jnp.full(2, 3.0),), "different by the jvp rule and by the"
    op = make_op(formula=formula)
    op.register_jvp(lambda primals, tangents: (primals[0] * 2, 2 * primals[0] * tangents[0]))
    assert_fails(op, args, "test_forward_mode", OpMismatchError, text)
    op.register_jvp(lambda primals, tangents: (op(*primals), 2 * primals[0] * tangents[0]))
    assert opcheck(op, args, test_utils="test_forward_mode")


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_a_jvp_rule_of_a_kernel_that_knows_single_precision_only_is_checked_in_that(factor):
    def single(x: jax.Array) -> jax.Array:
        if x.dtype != np.float32:
            raise TypeError("f32 only")
        return x * x

    op = make_op(single, None)
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, factor * primals[0] * tangents[0]))
    if factor == 2.0:
        assert opcheck(op, (jnp.ones(2),), test_utils="test_forward_mode")
    else:
        assert_fails(op, (jnp.ones(2),), "test_forward_mode", OpMismatchError, "the jvp rule is wrong")


def test_a_jvp_rule_beside_a_formula_that_is_declared_nonlinear_is_checked():
    op = make_op(formula=None)
    op.register_autograd(lambda ctx, g: g.clip(-0.1, 0.1), nonlinear=True)
    (reason,) = opcheck(op, (jnp.ones(2),), test_utils="test_forward_mode").values()
    assert reason == "SKIPPED: the formula is declared nonlinear, so no forward mode is derived from it"
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    assert_fails(op, (jnp.ones(2),), "test_forward_mode", OpMismatchError, "the jvp rule is wrong")


# Linear ops -----------------------------------------------------------------------------------------------


def make_linear_op(offset=0.0, factor=1.0, conjugates=True):
    matrix = np.array([[1 + 2j, 3 - 1j], [0.5j, 2], [1, -1 + 1j]])

    def of(kind):
        return jnp.promote_types(kind, np.complex64)

    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return (matrix @ x + offset).astype(of(x.dtype))

    apply.register_fake(lambda x: jax.ShapeDtypeStruct((3,), of(x.dtype)))

    def adjoint(ctx, g: np.ndarray):
        gradient = factor * (matrix.conj() if conjugates else matrix).T @ g
        return (gradient if ctx.is_complex else gradient.real).astype(ctx.dtype)

    def save(ctx, inputs, output):
        ctx.is_complex, ctx.dtype = jnp.iscomplexobj(inputs[0]), np.dtype(inputs[0].dtype)

    apply.register_autograd(adjoint, setup_context=save, linear=True)
    return apply


@pytest.mark.spec("D.55")
@pytest.mark.parametrize("point", [[0.5, 2.0], [0.5 + 1j, 2.0 - 1j]], ids=["real", "complex"])
def test_a_linear_op_with_its_adjoint_passes(point):
    x = oplib.tensor(point, requires_grad=True)
    assert set(opcheck(make_linear_op(), (x,)).values()) == {"SUCCESS"}


@pytest.mark.spec("D.55")
@pytest.mark.parametrize("point", [[0.5, 2.0], [0.5 + 1j, 2.0 - 1j]], ids=["real", "complex"])
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"offset": 1.0}, "the op is declared linear, and is not. Output 0 at 2 x - u/2"),
        ({"factor": 2.0}, "the backward formula is not the adjoint of the op"),
        ({"conjugates": False}, "the backward formula is not the adjoint of the op"),
    ],
)
def test_an_op_that_is_not_linear_or_has_another_formula_is_caught(point, wrong, text):
    x = oplib.tensor(point, requires_grad=True)
    with pytest.raises(OpCheckError, match=re.escape(text)):
        opcheck(make_linear_op(**wrong), (x,), test_utils="test_forward_mode")
