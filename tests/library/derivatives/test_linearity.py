"""The check that a backward formula is linear in its cotangents, and the formulas that it refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from oplib.errors import AutogradError
from oplib.library import ops
from oplib.library.derivatives.linearity import check_linear

X = jnp.array([0.3, -0.7, 1.1])
PLACES = jnp.array([0, 5, 2])


def summed(g: Any) -> Any:
    return jax.lax.scan(lambda carry, v: (carry + v, carry), jnp.zeros(()), g)[1]


def offset(g: Any) -> Any:
    return jax.lax.scan(lambda carry, v: (carry + v, carry), jnp.ones(()), g)[1]


def late_offset(g: Any) -> Any:
    return jax.lax.scan(lambda c, v: ((c[0] + c[1], c[1] * 0 + 1), c[0]), (jnp.zeros(()), jnp.zeros(())), g)[
        1
    ]


LINEAR = {
    "a product": lambda x, g: g * x,
    "a sum of products": lambda x, g: g * jnp.cos(x) + g.sum() * x,
    "a mask": lambda x, g: jnp.where(x > 0, g, 0),
    "a matrix product": lambda x, g: jnp.outer(x, x) @ g,
    "a quotient": lambda x, g: g / (1 + x**2),
    "a subscript": lambda x, g: g[PLACES],
    "a write into zeros": lambda x, g: jnp.zeros(3).at[PLACES].add(g),
    "a filled subscript": lambda x, g: g.at[PLACES].get(mode="fill", fill_value=0.0),
    "a loop": lambda x, g: summed(g * x),
    "a branch": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: v * 2, lambda v: -v, g),
    "a call": lambda x, g: jax.jit(lambda v: v * x)(g),
    "a checkpoint": lambda x, g: jax.checkpoint(lambda v: v * jnp.sin(x))(g),
    "a solution": lambda x, g: jnp.linalg.solve(jnp.diag(2 + x), g),
    "a triangular solution": lambda x, g: jax.scipy.linalg.solve_triangular(jnp.diag(2 + x), g),
    "a Fourier transform": lambda x, g: jnp.fft.irfft(jnp.fft.rfft(g * x), 3),
    "a derivative": lambda x, g: jax.jvp(jnp.sin, (x,), (g,))[1],
    "a sum of built-in ops": lambda x, g: ops.oplib.add.Tensor(ops.oplib.mul.Tensor(g, x), g),
    "half precision": lambda x, g: g.astype(jnp.bfloat16).astype(jnp.float32) * 2,
    "a function with its own derivative, of the residual": lambda x, g: jax.nn.silu(x) * g,
}
NOT_LINEAR = {
    "ignored": lambda x, g: jnp.ones(3),
    "a constant": lambda x, g: g * 2 + 0.1,
    "a residual": lambda x, g: g + x,
    "a fill": lambda x, g: g.at[PLACES].get(mode="fill", fill_value=7.0),
    "a write into ones": lambda x, g: jnp.ones(3).at[PLACES].add(g),
    "a loop that starts at one": lambda x, g: offset(g),
    "a loop that gets there": lambda x, g: late_offset(g),
    "a branch with a constant": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: v, lambda v: v + 1, g),
    "a cosine": lambda x, g: jnp.cos(g),
    "a power of zero": lambda x, g: g**0,
    "a square": lambda x, g: g**2,
    "a built-in op with a formula of its own": lambda x, g: ops.oplib.exp.default(g),
    "a product of built-in ops": lambda x, g: ops.oplib.mul.Tensor(g, g),
    "a product with itself": lambda x, g: g * g,
    "a product of two sums": lambda x, g: g.sum() * g,
    "an absolute value": lambda x, g: jnp.abs(g),
    "a sign": lambda x, g: jnp.sign(g) * x,
    "a mask by itself": lambda x, g: jnp.where(g > 0, g, 0),
    "a branch by itself": lambda x, g: jax.lax.cond(g[0] > 0, lambda v: v, lambda v: 2 * v, g),
    "a divisor": lambda x, g: x / g,
    "rounding": lambda x, g: g.astype(jnp.int32).astype(jnp.float32),
    "sorting": lambda x, g: jnp.sort(g),
    "a loop that squares": lambda x, g: jax.lax.scan(lambda c, v: (c * v, c), g.sum(), g)[1],
    "a function with its own derivative": lambda x, g: jax.nn.silu(g),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_formula_without_a_free_term_is_accepted_and_transposes_rightly(name: str) -> None:
    formula = LINEAR[name]
    check_linear(lambda residuals, grads: (formula(residuals[0], grads[0]),), (X,), (X,), "t::op")
    matrix = jax.jacrev(lambda g: formula(X, g))(X)
    transposed = jax.vjp(lambda g: formula(X, g), X)[1](jnp.ones(3))[0]
    assert jnp.allclose(transposed, matrix.T @ jnp.ones(3), rtol=1e-5)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_formula_with_a_free_term_is_refused(name: str) -> None:
    formula = NOT_LINEAR[name]
    with pytest.raises(AutogradError, match="t::op: no forward mode can be derived"):
        check_linear(lambda residuals, grads: (formula(residuals[0], grads[0]),), (X,), (X,), "t::op")
