"""opcheck finds wrong derivatives and batching rules."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import GradcheckError, OpMismatchError
from oplib.library import opcheck

from .checked_ops import (
    KERNELS,
    assert_fails,
    kernel_on_tensors,
    make_op,
    save_inputs,
    wrong_formula,
)

# test_gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KERNELS))
def test_a_wrong_formula_is_caught(x, kind):
    op = make_op(KERNELS[kind], wrong_formula)
    assert_fails(
        op, (x,), "test_gradients", GradcheckError, "Jacobian mismatch for output 0 with respect to input 0"
    )


def test_a_wrong_formula_is_caught_for_arrays(x):
    assert_fails(
        make_op(formula=wrong_formula), (jnp.ones(2),), "test_gradients", GradcheckError, "Jacobian mismatch"
    )


def test_a_wrong_formula_is_caught_where_there_is_much_to_differentiate_by():
    large = oplib.ones(100, requires_grad=True)
    assert_fails(
        make_op(formula=wrong_formula), (large,), "test_gradients", GradcheckError, "Jacobian mismatch"
    )


@pytest.mark.parametrize("size", [2, 100])
def test_the_error_names_the_registered_function_and_its_line(size):
    x = oplib.ones(size, requires_grad=True)
    line = rf"\S*checked_ops\.py:{wrong_formula.__code__.co_firstlineno}"
    told = f"Correct the function registered with register_autograd, wrong_formula at {line}[.,]"
    assert_fails(make_op(formula=wrong_formula), (x,), "test_gradients", GradcheckError, told)


def test_exchanged_gradients_are_caught(x):
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    op = make_op(product, lambda ctx, g: (g * ctx.saved_tensors[0], g * ctx.saved_tensors[1]))
    y = oplib.tensor([3.0, 4.0], requires_grad=True)
    assert_fails(op, (x, y), "test_gradients", GradcheckError, "Jacobian mismatch")


def test_a_forgotten_conjugate_is_caught():
    z = oplib.tensor([1 + 2j], requires_grad=True)
    right = make_op(formula=lambda ctx, g: g * 2 * ctx.saved_tensors[0].conj())
    assert opcheck(
        right, (z,), test_utils=("test_gradients", "test_aot_dispatch_dynamic", "test_forward_mode")
    )
    assert_fails(make_op(), (z,), "test_gradients", GradcheckError, "imaginary part")


def test_a_kernel_that_knows_single_precision_only_is_checked_in_that(x):
    def single(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float32:
            raise TypeError("f32 only")
        return x * x

    right, wrong = make_op(single), make_op(single, wrong_formula)
    assert opcheck(right, (x,), test_utils="test_gradients")
    assert_fails(wrong, (x,), "test_gradients", GradcheckError, "Jacobian mismatch")


@pytest.mark.parametrize(("dtype", "noise", "passes"), [
    (np.float32, 1e-3, False), (np.float32, 1e-6, True), (np.float64, 1e-7, False), (np.float64, 1e-11, True),
])  # fmt: skip
def test_a_formula_that_gives_another_gradient_each_time_is_caught(x, dtype, noise, passes):
    def kernel(x: np.ndarray) -> np.ndarray:
        if x.dtype == np.float64 != dtype:
            raise TypeError("f32 only")
        return x * x

    turns = itertools.count()

    def formula(ctx, g: np.ndarray):
        return g * 2 * ctx.saved_tensors[0] + g.dtype.type(noise * (next(turns) % 2))

    op = make_op(kernel, formula)
    if passes:
        assert opcheck(op, (x,), test_utils="test_gradients")
    else:
        assert_fails(op, (x,), "test_gradients", GradcheckError, "Backward is not reentrant")


def test_derivatives_that_are_declared_to_be_others_pass(x):
    def step(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, 0.5 * x)

    constant = make_op(step, None)
    constant.register_autograd(constant="a surrogate is learnt elsewhere")
    clipped = make_op(step, None)
    clipped.register_autograd(
        lambda ctx, g: jnp.clip(g, -0.1, 0.1), setup_context=save_inputs, nonlinear=True
    )
    for op in (constant, clipped):
        assert opcheck(op, (x,), test_utils=("test_gradients", "test_forward_mode"))


# test_vmap ------------------------------------------------------------------------------------------------


def test_a_batching_rule_that_is_wrong_if_one_argument_of_three_is_not_batched_is_caught():
    def total(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
        return x * y + z

    def rule(info, in_dims, x, y, z):
        batched = sum(dim is not None for dim in in_dims)
        x, y, z = (jnp.broadcast_to(v, (2, 3)) for v in (x, y, z))
        return x * y + (z if batched != 2 else 0), 0

    op = make_op(total, formula=None)
    op.register_vmap(rule)
    rows = (jnp.ones(3), jnp.ones(3), jnp.ones(3))
    assert_fails(
        op, rows, "test_vmap", OpMismatchError, "the outputs are different under vmap over .*, .* and one"
    )


def test_a_wrong_batching_rule_is_caught(x):
    op = make_op(formula=None)
    op.register_vmap(lambda info, in_dims, x: (x * x * 2, 0))
    assert_fails(
        op, (x.detach(),), "test_vmap", OpMismatchError, "the outputs are different under vmap over x"
    )


def test_a_batching_rule_that_mixes_its_members_is_caught(x):
    op = make_op(formula=None)
    op.register_vmap(lambda info, in_dims, x: (x[::-1] ** 2, 0))
    assert_fails(
        op, (x.detach(),), "test_vmap", OpMismatchError, "the outputs are different under vmap over x"
    )


def test_a_batching_rule_that_is_wrong_for_one_argument_alone_is_caught(x):
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    op = make_op(product, None)

    def rule(info, in_dims, x, y):
        return (x * y if in_dims == (0, 0) else x * y + 1), 0

    op.register_vmap(rule)
    assert_fails(
        op, (x.detach(), x.detach()), "test_vmap", OpMismatchError, "under vmap over (x|y) and one by one"
    )


def test_gradients_that_are_wrong_in_a_batch_are_caught(x):
    doubled = make_op(lambda g: g * 2, None, schema="(Tensor g) -> Tensor", compile=True)
    doubled.register_vmap(lambda info, in_dims, g: (g * 3, 0))
    op = make_op(formula=lambda ctx, g: doubled(g) * ctx.saved_tensors[0])
    assert_fails(op, (x,), "test_vmap", OpMismatchError, "the gradients are different under vmap")


# test_second_gradients ------------------------------------------------------------------------------------


def test_a_formula_whose_derivative_is_wrong_is_caught(x):
    op = make_op(kernel_on_tensors, lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach())
    assert opcheck(op, (x,), test_utils="test_gradients")
    assert_fails(op, (x,), "test_second_gradients", GradcheckError, "Jacobian mismatch")


LOST = {
    "in a stopped gradient": lambda ctx, x: ctx.save_for_backward(jax.lax.stop_gradient(jnp.cos(x))),
    "as a static number": lambda ctx, x: setattr(ctx, "cosine", jax.lax.stop_gradient(jnp.cos(x))),
}


@pytest.mark.parametrize("name", LOST)
def test_a_saved_intermediate_that_the_second_derivative_loses_is_caught(x, name):
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def formula(ctx, g):
        return g * (ctx.saved_tensors[0] if ctx.saved_tensors else ctx.cosine)

    op = make_op(sine, formula, lambda ctx, inputs, output: LOST[name](ctx, inputs[0]))
    assert_fails(op, (x,), "test_second_gradients", GradcheckError, "Jacobian mismatch")
    right = make_op(sine, formula, lambda ctx, inputs, output: ctx.save_for_backward(jnp.cos(inputs[0])))
    assert opcheck(right, (x,), test_utils="test_second_gradients")


def test_an_intermediate_result_that_is_marked_to_have_no_gradient_is_caught(x):
    def sine(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(x), jnp.cos(x)

    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    op = make_op(sine, lambda ctx, g, _: g * ctx.saved_tensors[0], setup)
    assert_fails(op, (x,), "test_second_gradients", GradcheckError, "Jacobian mismatch")


def test_a_formula_that_has_no_derivative_passes(x):
    def pull(ctx, g):
        shape = jax.ShapeDtypeStruct(g.shape, g.dtype)
        return jax.pure_callback(
            lambda g, x: 2 * g * x, shape, g, ctx.saved_tensors[0], vmap_method="sequential"
        )

    results = opcheck(make_op(formula=pull), (x,), test_utils="test_second_gradients")
    assert results == {"test_second_gradients": "SKIPPED: the formula has no derivative"}


@pytest.mark.parametrize("forward", [lambda ctx, x: x * 3 + 1, lambda ctx, x: x * 4])
def test_a_forward_that_gives_other_results_than_the_kernel_is_caught(forward):
    @oplib.custom_op
    def triple(x: jax.Array) -> jax.Array:
        return x * 3

    triple.register_autograd(lambda ctx, grad: grad * 3, forward=forward)
    assert_fails(triple, (jnp.ones(2),), "test_gradients", OpMismatchError, "recorded, by forward=")
