"""Both modes and all orders of differentiation use the correct rule."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from oplib.library import custom_op
from tests.library.matrix.marked import COS, ONES, REVERSE, SIN, Marked, W, X, by_both, sum_of

VALUES: dict[str, Any] = {
    "eager": lambda op: op(X, W),
    "jit": lambda op: jax.jit(op)(X, W),
    "nested jit": lambda op: jax.jit(lambda x, w: jax.jit(op)(x, w))(X, W),
    "checkpoint": lambda op: jax.checkpoint(op)(X, W),
    "compiled ahead of time": lambda op: jax.jit(op).lower(X, W).compile()(X, W),
    "eval_shape": lambda op: jnp.zeros(jax.eval_shape(op, X, W).shape) + W * SIN,
}
BACKWARD: dict[str, Any] = {
    "grad": lambda op: by_both(sum_of(op))(X, W),
    "jit of grad": lambda op: jax.jit(by_both(sum_of(op)))(X, W),
    "grad of jit": lambda op: by_both(jax.jit(sum_of(op)))(X, W),
    "value_and_grad": lambda op: jax.value_and_grad(sum_of(op), argnums=(0, 1))(X, W)[1],
    "vjp": lambda op: jax.vjp(op, X, W)[1](ONES),
    "vjp inside jit": lambda op: jax.jit(lambda x, w, g: jax.vjp(op, x, w)[1](g))(X, W, ONES),
    "jacrev": lambda op: [jacobian.sum(0) for jacobian in jax.jacrev(op, argnums=(0, 1))(X, W)],
    "transposed linearize": lambda op: jax.linear_transpose(jax.linearize(op, X, W)[1], X, W)(ONES),
    "checkpoint": lambda op: by_both(jax.checkpoint(sum_of(op)))(X, W),
    "jit of checkpoint": lambda op: jax.jit(by_both(jax.checkpoint(sum_of(op))))(X, W),
    "checkpoint that saves nothing": lambda op: by_both(
        jax.checkpoint(sum_of(op), policy=jax.checkpoint_policies.nothing_saveable)
    )(X, W),
    "checkpoint that saves the op": lambda op: by_both(
        jax.checkpoint(sum_of(op), policy=lambda primitive, *_, **__: primitive.name.startswith("matrix::"))
    )(X, W),
}
FORWARD: dict[str, Any] = {
    "jvp": lambda op: jax.jvp(op, (X, W), (ONES, W))[1],
    "jit of jvp": lambda op: jax.jit(lambda *at: jax.jvp(op, at[:2], at[2:])[1])(X, W, ONES, W),
    "jvp of jit": lambda op: jax.jvp(jax.jit(op), (X, W), (ONES, W))[1],
    "jacfwd": lambda op: jax.jacfwd(op, 0)(X, W) @ ONES + jax.jacfwd(op, 1)(X, W) * W,
    "linearize": lambda op: jax.linearize(op, X, W)[1](ONES, W),
    "jit of linearize": lambda op: jax.jit(lambda *at: jax.linearize(op, *at[:2])[1](*at[2:]))(X, W, ONES, W),
    "checkpoint": lambda op: jax.jvp(jax.checkpoint(op), (X, W), (ONES, W))[1],
}
# By x, of the sum: outer over inner. The rule of the innermost mode is the one that remains.
SECOND: dict[str, Any] = {
    "forward over reverse": lambda op: jax.jacfwd(jax.jacrev(sum_of(op)))(X, W),
    "reverse over reverse": lambda op: jax.jacrev(jax.jacrev(sum_of(op)))(X, W),
    "reverse over forward": lambda op: jax.jacrev(jax.jacfwd(sum_of(op)))(X, W),
    "forward over forward": lambda op: jax.jacfwd(jax.jacfwd(sum_of(op)))(X, W),
    "hessian": lambda op: jax.hessian(sum_of(op))(X, W),
}
THIRD: dict[str, Any] = {
    "reverse over reverse over reverse": lambda op: jax.grad(jax.grad(jax.grad(op)))(X[0], W),
    "forward over reverse over reverse": lambda op: jax.jacfwd(jax.grad(jax.grad(op)))(X[0], W),
    "reverse over forward over reverse": lambda op: jax.grad(jax.jacfwd(jax.grad(op)))(X[0], W),
    "reverse over reverse over forward": lambda op: jax.grad(jax.grad(jax.jacfwd(op)))(X[0], W),
    "forward over forward over forward": lambda op: jax.jacfwd(jax.jacfwd(jax.jacfwd(op)))(X[0], W),
}
# Without an outer jit, every step is dispatched separately.
EAGER: dict[str, Any] = {
    "grad": lambda op: jax.grad(sum_of(op))(X, W),
    "vjp": lambda op: jax.vjp(op, X, W)[1](ONES)[0],
    "compiled ahead of time": lambda op: jax.jit(jax.grad(sum_of(op))).lower(X, W).compile()(X, W),
    "a vjp object out of one jit and into another": lambda op: jax.jit(lambda pull, g: pull(g))(
        jax.jit(lambda x, w: jax.vjp(op, x, w)[1])(X, W), ONES
    )[0],
}


@pytest.mark.parametrize("run", VALUES.values(), ids=VALUES)
def test_values_are_the_kernels(run: Any, marked: Marked) -> None:
    np.testing.assert_allclose(run(marked.op), W * SIN, rtol=1e-6)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", BACKWARD)
def test_reverse_mode_runs_the_backward_formula(name: str, marked: Marked) -> None:
    by_x, by_w = marked.find(BACKWARD, name)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_runs_the_jvp_rule_or_the_transposed_formula(name: str, marked: Marked) -> None:
    np.testing.assert_allclose(marked.find(FORWARD, name), marked.forward * W * (COS + SIN), rtol=1e-5)


@pytest.mark.parametrize("run", EAGER.values(), ids=EAGER)
def test_it_does_so_at_once_and_from_jit_to_jit(run: Any, marked: Marked) -> None:
    np.testing.assert_allclose(run(marked.op), marked.reverse * W * COS, rtol=1e-5)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", SECOND)
def test_a_second_derivative_differentiates_the_rule_that_ran(name: str, marked: Marked) -> None:
    factor = marked.forward if name.endswith("forward") else marked.reverse
    np.testing.assert_allclose(marked.find(SECOND, name), np.diag(-factor * W * SIN), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", THIRD)
def test_a_third_derivative_does_so_too(name: str, marked: Marked) -> None:
    factor = marked.forward if name.endswith("forward") else marked.reverse
    np.testing.assert_allclose(marked.find(THIRD, name), -factor * W * COS[0], rtol=1e-5)


def test_the_mixed_second_derivative_is_that_of_the_rule(marked: Marked) -> None:
    mixed = jax.grad(lambda w: jax.grad(sum_of(marked.op))(X, w).sum())(W)
    np.testing.assert_allclose(mixed, marked.reverse * COS.sum(), rtol=1e-5)


def test_the_op_stands_in_the_jaxpr_under_its_own_name(marked: Marked) -> None:
    name = f"matrix::bend_{marked.rules}"
    shown = f"[name={name}]" if marked.rules == "d" else f"{name}["  # JAX sees the kernel of a derived op
    assert shown in str(jax.jit(marked.op).trace(X, W).jaxpr)
    assert shown in str(jax.jit(by_both(sum_of(marked.op))).trace(X, W).jaxpr)


@pytest.mark.parametrize("saves", [True, False], ids=["saves", "recomputes"])
def test_a_checkpoint_policy_sees_the_op_by_its_name(saves: bool) -> None:
    @custom_op("matrix::grow")
    def grow(x: jax.Array) -> jax.Array:
        return jnp.exp(x)

    grow.register_autograd(
        lambda ctx, grad: REVERSE * grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    policy = lambda primitive, *_, **__: saves and primitive.name == "matrix::grow"  # noqa: E731
    f = jax.checkpoint(lambda x: jnp.sin(grow(x)).sum(), policy=policy)
    jaxpr = str(jax.jit(jax.grad(f)).trace(X).jaxpr)
    assert jaxpr.count("matrix::grow[") == (1 if saves else 2)
    np.testing.assert_allclose(jax.grad(f)(X), REVERSE * np.cos(np.exp(X)) * np.exp(X), rtol=1e-5)


def test_a_name_given_to_the_result_is_saved_by_a_policy_of_names(marked: Marked) -> None:
    policy = jax.checkpoint_policies.save_only_these_names("bent")
    f = jax.checkpoint(lambda x, w: checkpoint_name(marked.op(x, w), "bent").sum(), policy=policy)
    np.testing.assert_allclose(jax.grad(f)(X, W), marked.reverse * W * COS, rtol=1e-5)
