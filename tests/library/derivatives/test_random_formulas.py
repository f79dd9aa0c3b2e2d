"""Random formulas: the check of linearity accepts those of linear pieces, and none that is not linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from oplib.errors import AutogradError
from oplib.library.derivatives.linearity import require_linear, transpose_rule
from tests.library.derivatives.linear_formulas import MATRIX, doubled, loop, repeat, rounded, shifted, until

pytestmark = pytest.mark.spec("D.32")

X = jnp.array([0.3, -0.7, 1.1])
Piece = Callable[[Any, Any], Any]

LINEAR: dict[str, Piece] = {
    "scale": lambda x, g: g * x,
    "divide": lambda x, g: g / (2 + x),
    "flip": lambda x, g: g[::-1],
    "negate": lambda x, g: 0 - g,
    "matrix": lambda x, g: MATRIX @ g,
    "sum": lambda x, g: g.sum() * x,
    "stack": lambda x, g: jnp.stack([g, 2 * g]).sum(0),
    "tile": lambda x, g: jnp.tile(g, 2)[1:4],
    "take": lambda x, g: jnp.take(g, jnp.array([1, 1, 2])),
    "add at": lambda x, g: jnp.zeros(3).at[jnp.array([0, 0, 2])].add(g),
    "set at": lambda x, g: g.at[1].set(0.0),
    "custom": lambda x, g: doubled(g),
    "accumulate": lambda x, g: jnp.cumsum(g),
    "where": lambda x, g: jnp.where(x > 0, g, 0),
    "residual": lambda x, g: jnp.sin(x) * g - jax.nn.relu(x) * g,
    "solve": lambda x, g: jnp.linalg.solve(MATRIX, g),
}
OTHER: dict[str, Piece] = {
    "shift": lambda x, g: g + 1,
    "add residual": lambda x, g: g + x,
    "round": lambda x, g: jnp.round(g),
    "hidden round": lambda x, g: rounded(g),
    "hidden shift": lambda x, g: shifted(g),
    "stop": lambda x, g: jax.lax.stop_gradient(g) * g,
    "square": lambda x, g: g * g,
    "rectify": lambda x, g: jax.nn.relu(g),
    "absolute": lambda x, g: jnp.abs(g),
    "fill": lambda x, g: jnp.take(g, jnp.array([0, 9, 1]), fill_value=2),
    "constant": lambda x, g: jnp.ones(3),
    "set one": lambda x, g: g.at[0].set(1.0),
    "stop early": lambda x, g: until(lambda c: jnp.abs(c).sum() < 3, lambda c: c * 2 + 0.1, g),
}


def nest(kind: str, inner: Piece) -> Piece:
    """Puts a formula into a call, a loop or a branch."""
    nests: dict[str, Piece] = {
        "plain": inner,
        "jit": lambda x, g: jax.jit(inner)(x, g),
        "checkpoint": lambda x, g: jax.checkpoint(inner)(x, g),
        "scan": lambda x, g: loop(lambda c, v: (inner(x, c) * 0.3 + v, c), g, jnp.outer(x, g))[0],
        "repeat": lambda x, g: repeat(2, lambda i, c: inner(x * i, c) * 0.3, g),
        "while": lambda x, g: repeat(x.argmax(), lambda i, c: inner(x, c) * 0.3, g),
        "cond": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: inner(x, v), lambda v: v, g),
        "custom_jvp": lambda x, g: _keep_value(lambda v: inner(x, v))(g),
        "swap": lambda x, g: loop(lambda c, _: ((c[1], inner(x, c[0])), c[0]), (g, jnp.zeros(3)), x)[0][1],
    }
    return nests[kind]


def _keep_value(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function that says that it is the identity, whatever it is."""
    made = jax.custom_jvp(function)
    made.defjvp(lambda p, t: (made(p[0]), t[0]))
    return made


NESTS = ("plain", "jit", "checkpoint", "scan", "repeat", "while", "cond", "custom_jvp", "swap")


@st.composite
def formulas(draw: st.DrawFn, pieces: Sequence[Piece], nests: Sequence[str]) -> Piece:
    """Composes pieces, each in a nest, by application and by sums."""
    made: Piece = lambda x, g: g  # noqa: E731
    for _ in range(draw(st.integers(1, 3))):
        piece = nest(draw(st.sampled_from(nests)), draw(st.sampled_from(pieces)))
        made = _join(made, piece, is_sum=draw(st.booleans()))
    return made


def _join(first: Piece, then: Piece, *, is_sum: bool) -> Piece:
    if is_sum:
        return lambda x, g: first(x, g) - then(x, g)
    return lambda x, g: then(x, first(x, g))


def bind(formula: Piece) -> Callable[[Any, Any], tuple[Any]]:
    return lambda points, moving: (formula(points[0], moving[0]),)


@pytest.mark.slow
@given(formulas([*LINEAR.values(), *OTHER.values()], NESTS))
@settings(max_examples=100)
def test_an_accepted_formula_is_linear(formula: Piece) -> None:
    try:
        require_linear(bind(formula), (X,), (X,), "ns::op")
    except AutogradError:
        return
    run = jax.jit(formula)
    u, v = jnp.array([0.4, -3.7, 2.2]), jnp.array([5.5, 0.6, -1.3])
    expected = 3 * run(X, u) - 2 * run(X, v)
    np.testing.assert_allclose(run(X, 3 * u - 2 * v), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@given(formulas([*LINEAR.values()], [one for one in NESTS if one != "while"]))
@settings(max_examples=40)
def test_a_formula_of_linear_pieces_is_accepted_and_transposed(formula: Piece) -> None:
    rule = require_linear(bind(formula), (X,), (X,), "t::op")
    columns = jnp.stack([formula(X, unit) for unit in jnp.eye(3)])
    (found,) = transpose_rule(rule, (X,), (jnp.zeros(3),), (jnp.array([1.0, -2.0, 0.5]),), "t::op")
    np.testing.assert_allclose(found, columns @ jnp.array([1.0, -2.0, 0.5]), rtol=1e-3, atol=1e-3)
