"""The forward-mode checks of gradcheck pass what is right and catch what is wrong."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd import gradcheck, gradgradcheck
from oplib.autograd.gradcheck.backward import check_gradient_kind
from oplib.errors import GradcheckError
from oplib.library import custom_op

FAST = pytest.mark.parametrize("fast_mode", [False, True])


@pytest.fixture
def x():
    return oplib.tensor([0.5, -1.5], requires_grad=True)


def make_square(jvp):
    """x², with a right formula and this rule for forward mode."""

    def square(x: jax.Array) -> jax.Array:
        return x * x

    op = custom_op("gradcheck_test::square", square)
    op.register_autograd(
        lambda ctx, g: g * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    op.register_jvp(jvp)
    return op


@FAST
def test_right_tangents_pass(x, fast_mode):
    assert gradcheck(lambda x: (x * x, x.sin()), x, check_forward_ad=True, fast_mode=fast_mode)


def test_forward_mode_can_be_checked_alone(x):
    assert gradcheck(lambda x: x * x, x, check_forward_ad=True, check_backward_ad=False)


@FAST
def test_complex_tangents_pass(fast_mode):
    z = oplib.tensor([1 + 2j], requires_grad=True)
    assert gradcheck(lambda z: (z * z, z.abs()), z, check_forward_ad=True, fast_mode=fast_mode)


def test_several_inputs_pass_and_values_that_are_no_tensors(x):
    y = oplib.tensor([2.0, 3.0], requires_grad=True)
    assert gradcheck(lambda x, scale, y: x * y * scale, (x, 2.0, y), check_forward_ad=True)


@FAST
@pytest.mark.usefixtures("forget_ops")
def test_a_wrong_rule_is_caught_though_the_formula_is_right(x, fast_mode):
    op = make_square(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    assert gradcheck(op, x, fast_mode=fast_mode)
    text = "Jacobian computed with forward mode mismatch for output 0 with respect to input 0"
    with pytest.raises(GradcheckError, match=text):
        gradcheck(op, x, check_forward_ad=True, fast_mode=fast_mode)


def test_batched_tangents_pass(x):
    assert gradcheck(lambda x: x * x, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_a_function_that_reads_tangents_cannot_be_batched(x):
    def reading(x):
        tangent = oplib.autograd.forward_ad.unpack_dual(x).tangent
        return x * x if tangent is None or float(tangent.sum()) < 1e9 else x

    assert gradcheck(reading, x, check_forward_ad=True)
    with pytest.raises(GradcheckError, match="forward mode cannot be computed in a batch"):
        gradcheck(reading, x, check_forward_ad=True, check_batched_forward_grad=True)


@pytest.mark.usefixtures("forget_ops")
def test_a_rule_that_is_right_for_each_tangent_alone_only_is_caught(x):
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        if tx is not None and ty is not None:
            return x * y, 2 * (tx * y + x * ty)
        return x * y, x * ty if tx is None else tx * y

    op = custom_op("gradcheck_test::product", product)
    op.register_jvp(rule, symbolic_zeros=True)
    y = oplib.tensor([2.0, 3.0], requires_grad=True)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    with pytest.raises(GradcheckError, match="input 0 has an undefined tangent value"):
        gradcheck(op, (x, y), **options)
    assert gradcheck(op, (x, y), check_undefined_grad=False, **options)


def test_forward_over_reverse_passes(x):
    assert gradgradcheck(lambda x: x * x, x, check_fwd_over_rev=True)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (np.zeros(3, np.float32), "incorrect size"),
        (np.zeros(2, np.float64), "dtype mismatch"),
        (np.zeros(2, np.complex64), "dtype mismatch"),
    ],
)
def test_gradients_of_another_kind_are_caught(found, text):
    with pytest.raises(GradcheckError, match=text):
        check_gradient_kind(found, np.zeros(2, np.float32), "input 0", check_dtype=True)


def test_a_complex_gradient_of_something_real_is_caught_whatever_is_asked_for():
    with pytest.raises(GradcheckError, match="complex where it is to be real"):
        check_gradient_kind(np.zeros(2, np.complex64), np.zeros(2, np.float32), "input 0", check_dtype=False)
    check_gradient_kind(np.zeros(2, np.float64), np.zeros(2, np.float32), "input 0", check_dtype=False)
