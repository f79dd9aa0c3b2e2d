"""Derivatives are by the tensors among the arguments, for all kinds of arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.library import CustomOpDef, custom_op
from tests.library.matrix.marked import COS, FORWARD, ONES, REVERSE, SIN, Marked, W, X, by_both, sum_of

KINDS = pytest.mark.parametrize("rules", ["b", "bj", "j", "d"])
FACTORS = {"b": (REVERSE, REVERSE), "bj": (REVERSE, FORWARD), "j": (FORWARD, FORWARD), "d": (1.0, 1.0)}
ARGUMENTS: dict[str, Any] = {
    "numpy arrays": (np.asarray(X), np.asarray(W)),
    "a numpy array and a Python number": (np.asarray(X), 1.5),
    "a numpy scalar": (X, np.float32(1.5)),
    "a Python number": (X, 1.5),
    "an integer": (X, 1),
    "a boolean": (X, True),
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arrays_and_numbers_of_any_kind(arguments: Any, marked: Marked) -> None:
    x, w = arguments
    for value in (marked.op(x, w), jax.jit(marked.op)(x, w), jax.jit(lambda x: marked.op(x, w))(x)):
        np.testing.assert_allclose(value, float(w) * SIN, rtol=1e-5)
        assert value.dtype == X.dtype
    grads = jax.grad(lambda x: marked.op(x, w).sum())(jnp.asarray(x))
    np.testing.assert_allclose(grads, marked.reverse * float(w) * COS, rtol=1e-5)


def test_a_python_number_has_a_gradient(marked: Marked) -> None:
    by_w = jax.grad(sum_of(marked.op), argnums=1)(X, 1.5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)


def test_keyword_arguments_are_the_same_call(marked: Marked) -> None:
    f = lambda x, w: marked.op(w=w, x=x).sum()  # noqa: E731
    by_x, by_w = jax.jit(by_both(f))(X, W)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)


def test_zero_size_arrays_have_zero_size_derivatives(marked: Marked) -> None:
    empty = X[:0]
    assert marked.op(empty, W).shape == (0,)
    by_x, by_w = by_both(sum_of(marked.op))(empty, W)
    assert (by_x.shape, float(by_w)) == ((0,), 0.0)
    assert jax.jvp(marked.op, (empty, W), (empty, W))[1].shape == (0,)
    assert jax.jacfwd(marked.op)(empty, W).shape == (0, 0)


def test_half_precision_stays_half(marked: Marked) -> None:
    x = X.astype(jnp.bfloat16)
    w = W.astype(jnp.bfloat16)
    by_x, by_w = by_both(sum_of(marked.op))(x, w)
    assert by_x.dtype == by_w.dtype == jax.jvp(marked.op, (x, w), (x, w))[1].dtype == jnp.bfloat16
    np.testing.assert_allclose(by_x.astype("float32"), marked.reverse * W * COS, rtol=5e-2)


def attach(op: CustomOpDef, rules: str, pull: Any, push: Any, save: Any) -> None:
    """Registers the given rules."""
    if "b" in rules:
        op.register_autograd(pull, setup_context=save)
    if "j" in rules:
        op.register_jvp(push)
    if "d" in rules:
        op.register_autograd("derive")


def make_pick(rules: str) -> CustomOpDef:
    """An op with an integer input, an integer output between two float outputs, and a keyword-only number."""

    @custom_op(f"matrix::pick_{rules}")
    def pick(x: jax.Array, index: jax.Array, *, scale: float = 2.0) -> tuple[jax.Array, jax.Array, jax.Array]:
        return x[index], index + 1, x * scale

    def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.scale = keyword_only_inputs["scale"]

    def pull(ctx: Any, picked: Any, none: Any, scaled: Any) -> Any:
        assert none is None
        x, index = ctx.saved_tensors
        return REVERSE * (jnp.zeros_like(x).at[index].add(picked) + ctx.scale * scaled), None

    def push(primals: Any, tangents: Any) -> Any:
        (x, index, scale), (dx, none, no_scale) = primals, tangents
        assert none.dtype == jax.dtypes.float0
        assert no_scale is None
        outputs = x[index], index + 1, x * scale
        return outputs, (FORWARD * dx[index], None, FORWARD * dx * scale)

    attach(pick, rules, pull, push, save)
    return pick


@KINDS
def test_integer_inputs_and_outputs_have_no_derivative_and_the_others_theirs(rules: str) -> None:
    pick, (reverse, forward) = make_pick(rules), FACTORS[rules]
    index = jnp.array(1)

    @jax.jit
    def run(x: Any) -> Any:
        return (
            jax.grad(lambda x: pick(x, index)[0] + pick(x, index)[2].sum())(x),
            jax.grad(lambda x: pick(x, index)[0])(x),
            jax.vmap(jax.grad(lambda x, i: pick(x, i)[0]), (None, 0))(x, jnp.array([1, 3])),
        )

    by_both_outputs, by_one, mapped = run(X)
    np.testing.assert_allclose(by_both_outputs, reverse * np.array([2, 3, 2, 2]), rtol=1e-6)
    np.testing.assert_allclose(by_one, reverse * np.eye(4)[1])
    np.testing.assert_allclose(mapped, reverse * np.eye(4)[[1, 3]])
    value, (picked, integer, scaled) = jax.jvp(lambda x: pick(x, index, scale=3.0), (X,), (ONES,))
    assert value[1].dtype.kind == "i"
    assert integer.dtype == jax.dtypes.float0
    np.testing.assert_allclose(picked, forward)
    np.testing.assert_allclose(scaled, forward * 3 * np.ones(4))


@KINDS
def test_gradients_by_integers_follow_jax(rules: str) -> None:
    pick = make_pick(rules)
    _, pull_back = jax.vjp(lambda x, i: pick(x, i)[0], X, jnp.array(1))
    by_index = pull_back(jnp.float32(1))[1]
    assert by_index.dtype == jax.dtypes.float0


def make_blend(rules: str) -> CustomOpDef:
    """An op with a list, an optional tensor, a list of optional tensors, and a list as result."""

    @custom_op(f"matrix::blend_{rules}", schema="(Tensor[] xs, Tensor? bias, Tensor?[] more) -> Tensor[]")
    def blend(xs: list[jax.Array], bias: jax.Array | None, more: list[jax.Array | None]) -> list[jax.Array]:
        shift = (0 if bias is None else bias) + sum(each for each in more if each is not None)
        return [x * (1 + i) + shift for i, x in enumerate(xs)]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.has_bias, ctx.has_more = inputs[1] is not None, [each is not None for each in inputs[2]]

    def pull(ctx: Any, grads: Any) -> Any:
        shift = REVERSE * sum(grads)
        return (
            [REVERSE * grad * (1 + i) for i, grad in enumerate(grads)],
            shift if ctx.has_bias else None,
            [shift if has else None for has in ctx.has_more],
        )

    def push(primals: Any, tangents: Any) -> Any:
        xs, dxs = primals[0], tangents[0]
        shift = sum(each for each in (tangents[1], *tangents[2]) if each is not None)
        outputs = blend(*primals)
        pushed = [(0 if dx is None else dx * (1 + i)) + shift for i, dx in enumerate(dxs)]
        return outputs, [FORWARD * (jnp.zeros_like(x) + dx) for x, dx in zip(xs, pushed, strict=True)]

    attach(blend, rules, pull, push, save)
    return blend


@KINDS
def test_lists_and_optional_arguments(rules: str) -> None:
    blend, (reverse, forward) = make_blend(rules), FACTORS[rules]
    f = lambda x, y, bias, more: sum(v.sum() for v in blend([x, y], bias, [None, more]))  # noqa: E731

    @jax.jit
    def run(x: Any) -> Any:
        return (
            jax.grad(f, argnums=(0, 1, 2, 3))(x, x, x, x),
            jax.grad(lambda x: f(x, x, None, x))(x),
            jax.jvp(f, (x, x, x, x), (x, x, x, x))[1],
            jax.vmap(jax.grad(lambda x: f(x, x, x, x)))(x),
        )

    grads, without_bias, tangent, mapped = run(X)
    np.testing.assert_allclose(grads, [np.full(4, reverse * each) for each in (1, 2, 2, 2)])
    np.testing.assert_allclose(without_bias, np.full(4, reverse * 5))
    np.testing.assert_allclose(tangent, forward * 7 * X.sum(), rtol=1e-5)
    np.testing.assert_allclose(mapped, np.full(4, reverse * 7))
    assert blend([], None, []) == []
