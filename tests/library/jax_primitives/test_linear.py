"""Derivatives of an op in each transformation of JAX are those of a plain function, whichever rule it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import AutogradError, MissingRuleError
from oplib.library import custom_op

X, W = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.5, 2.0, -1.0])
ROWS = jnp.stack([X, X + 1, X - 2])


def plain(x: Any, w: Any) -> tuple[Any, Any, Any]:
    """Has a product, an integer, and an exponential, whose derivative needs the result."""
    return x * x * w, jnp.argmax(x, axis=-1), jnp.exp(x)


def hide(g: Any) -> Any:
    """Returns a cotangent; nobody can show that this is linear."""
    return jnp.where(jnp.abs(g) < 0, 0 * g, g)


def make(kind: str) -> Any:
    """Registers ``plain`` with some rules."""

    def kernel(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return plain(x, w)

    op = custom_op(f"linears::{kind}", kernel)
    seen = hide if kind == "hidden" else lambda g: g

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output[2])

    def backward(ctx: Any, first: Any, _: Any, last: Any) -> Any:
        x, w, exp = ctx.saved_tensors
        return seen(first) * 2 * x * w + seen(last) * exp, seen(first) * x * x

    def push(primals: Any, tangents: Any) -> Any:
        (x, w), (tx, tw) = primals, tangents
        y, index, exp = plain(x, w)
        none = np.zeros(index.shape, jax.dtypes.float0)
        return (y, index, exp), (2 * x * w * tx + x * x * tw, none, exp * tx)

    if kind != "jvp":
        op.register_autograd(backward, setup_context=save)
    if kind in ("jvp", "both"):
        op.register_jvp(push)
    return op


OPS = {kind: make(kind) for kind in ("formula", "jvp", "both", "hidden")}


def add(function: Any) -> Callable[..., Any]:
    """Returns the weighted sum of the results, by which each of them gets another cotangent."""

    def added(x: Any, w: Any) -> Any:
        y, index, exp = function(x, w)
        return (y * jnp.cos(x)).sum() + 3 * exp.sum() + index.sum()

    return added


def both(function: Any) -> Callable[..., Any]:
    """Returns the results that have derivatives."""
    return lambda x, w: function(x, w)[::2]


REVERSE: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: jax.grad(add(f), (0, 1))(X, W),
    "grad by the second": lambda f: jax.grad(add(f), 1)(X, W),
    "jacrev": lambda f: jax.jacrev(both(f), (0, 1))(X, W),
    "reverse twice": lambda f: jax.jacrev(jax.grad(add(f), (0, 1)), (0, 1))(X, W),
    "vmap of grad": lambda f: jax.vmap(jax.grad(add(f), (0, 1)), (0, None))(ROWS, W),
    "grad of vmap": lambda f: jax.grad(add(jax.vmap(f, (0, None))), (0, 1))(ROWS, W),
    "grad of vmap of the other": lambda f: jax.grad(add(jax.vmap(f, (None, 0))), (0, 1))(X, ROWS),
    "grad of vmap twice": lambda f: jax.grad(
        lambda x, w: both(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))(x, w)[0].sum(), (0, 1)
    )(ROWS, ROWS[:2]),
    "grad in jit": lambda f: jax.jit(jax.grad(add(f), (0, 1)))(X, W),
    "a cotangent for one result": lambda f: jax.vjp(both(f), X, W)[1]((jnp.zeros(3), W)),
}
FORWARD: dict[str, Callable[[Any], Any]] = {
    "jvp": lambda f: jax.jvp(both(f), (X, W), (W, X)),
    "jvp by the first": lambda f: jax.jvp(lambda x: both(f)(x, W), (X,), (W,)),
    "jvp by the second": lambda f: jax.jvp(lambda w: both(f)(X, w), (W,), (X,)),
    "jacfwd": lambda f: jax.jacfwd(both(f), (0, 1))(X, W),
    "forward twice": lambda f: jax.jacfwd(jax.jacfwd(both(f), (0, 1)), (0, 1))(X, W),
    "jvp of vmap": lambda f: jax.jvp(jax.vmap(both(f), (0, None)), (ROWS, W), (ROWS + 1, X)),
    "vmap of jvp": lambda f: jax.vmap(lambda x, t: jax.jvp(both(f), (x, W), (t, X)), (0, None))(ROWS, W),
    "vmap over tangents": lambda f: jax.vmap(lambda t: jax.jvp(both(f), (X, W), (t, X))[1])(ROWS),
    "linearize": lambda f: jax.linearize(both(f), X, W)[1](W, X),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(both(f), (0, 1)), (0, 1))(X, W),
}
OUTER = {"forward over reverse": lambda f: jax.jacfwd(jax.grad(add(f), (0, 1)), (0, 1))(X, W)}


def assert_same(op: Any, transform: Callable[[Any], Any]) -> None:
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6),
        transform(op),
        transform(plain),
    )


@pytest.mark.parametrize("kind", ["formula", "jvp", "both"])
@pytest.mark.parametrize("name", [*REVERSE, *FORWARD, *OUTER])
def test_a_derivative_is_that_of_the_plain_function(name: str, kind: str) -> None:
    assert_same(OPS[kind], (REVERSE | FORWARD | OUTER)[name])


@pytest.mark.parametrize("name", [*REVERSE, *OUTER])
def test_of_a_formula_that_is_not_shown_to_be_linear_too(name: str) -> None:
    """A derivative of the results of a gradient is that of the kernel."""
    assert_same(OPS["hidden"], (REVERSE | OUTER)[name])


@pytest.mark.parametrize("name", FORWARD)
def test_but_forward_mode_cannot_be_derived_from_it(name: str) -> None:
    with pytest.raises(AutogradError, match="linears::hidden: no forward mode can be derived"):
        FORWARD[name](OPS["hidden"])


@pytest.mark.usefixtures("forget_ops")
def test_a_complex_formula_has_the_conjugate_of_the_gradient_of_jax() -> None:
    @custom_op("linears::square")
    def square(z: jax.Array, w: jax.Array) -> jax.Array:
        return z * z * w

    square.register_autograd(
        lambda ctx, g: (
            g * jnp.conj(2 * ctx.saved_tensors[0] * ctx.saved_tensors[1]),
            g * jnp.conj(ctx.saved_tensors[0] ** 2),
        ),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    z, w = X + 1j * W, W - 2j * X
    for transform in (
        lambda f: jax.vjp(f, z, w)[1](w),
        lambda f: jax.jvp(f, (z, w), (w, z)),
        lambda f: jax.jacrev(f, (0, 1), holomorphic=True)(z, w),
        lambda f: jax.jvp(lambda z, w: jax.vjp(f, z, w)[1](w), (z, w), (w, z)),
        lambda f: jax.vmap(lambda t: jax.jvp(f, (z, w), (t, w))[1])(jnp.stack([z, w])),
    ):
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6),
            transform(square),
            transform(lambda z, w: z * z * w),
        )


@pytest.mark.usefixtures("forget_ops")
def test_none_in_a_formula_is_zero() -> None:
    @custom_op("linears::left")
    def left(x: jax.Array, w: jax.Array) -> jax.Array:
        return x + 0 * w

    left.register_autograd(lambda ctx, g: (g, None))
    for found in (jax.grad(lambda x, w: left(x, w).sum(), (0, 1))(X, W), jax.vjp(left, X, W)[1](jnp.ones(3))):
        np.testing.assert_array_equal(jnp.stack(found), [[1.0] * 3, [0.0] * 3])
    mapped = jax.vmap(left, (0, None))
    by_w = jax.grad(lambda w: mapped(ROWS, w).sum())(W)
    np.testing.assert_array_equal(by_w, [0.0] * 3)


@pytest.mark.usefixtures("forget_ops")
def test_an_op_without_rules_says_what_to_register() -> None:
    @custom_op("linears::bare")
    def bare(x: jax.Array) -> jax.Array:
        return x * 2

    with pytest.raises(MissingRuleError, match=r'linears::bare.* no autograd formula .*"derive" for JAX'):
        jax.grad(lambda x: bare(x).sum())(X)
