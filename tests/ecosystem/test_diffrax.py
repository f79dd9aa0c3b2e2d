"""Differential equations of diffrax whose vector field is an op, under each adjoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.ecosystem.packages import require
from tests.ecosystem.pairs import Pair, assert_close

diffrax = require("diffrax")

W = jnp.array([[-0.2, 1.0], [-1.1, -0.1]])
START = jnp.array([1.0, 0.5])

REVERSE: dict[str, Callable[[], Any]] = {
    "recursive checkpoint": lambda: diffrax.RecursiveCheckpointAdjoint(),
    "direct": lambda: diffrax.DirectAdjoint(),
    "backsolve": lambda: diffrax.BacksolveAdjoint(),
}


def solve(bend: Callable[..., Any], adjoint: Any, w: Any, start: Any, *, adaptive: bool = False) -> Any:
    controller = diffrax.PIDController(rtol=1e-4, atol=1e-6) if adaptive else diffrax.ConstantStepSize()
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, w: bend(w @ y)),
        diffrax.Tsit5() if adaptive else diffrax.Heun(),
        t0=0.0,
        t1=1.0,
        dt0=0.1,
        y0=start,
        args=w,
        stepsize_controller=controller,
        adjoint=adjoint,
        max_steps=64,
    )
    return solution.ys


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERSE)
def test_gradients_are_those_with_the_rule_in_jax(bend: Pair, name: str) -> None:
    def loss(function: Callable[..., Any], w: Any, start: Any) -> Any:
        return (solve(function, REVERSE[name](), w, start) ** 2).sum()

    found, expected = (jax.jit(jax.grad(partial(loss, function), (0, 1)))(W, START) for function in bend)
    assert_close(found, expected)


@pytest.mark.slow
def test_forward_mode_is_that_with_the_rule_in_jax(bend_forward: Pair) -> None:
    found, expected = (
        jax.jit(jax.jacfwd(partial(solve, function, diffrax.ForwardMode()), (0, 1)))(W, START)
        for function in bend_forward
    )
    assert_close(found, expected)


@pytest.mark.slow
def test_a_batch_of_equations_has_steps_of_its_own_under_vmap(bend: Pair) -> None:
    def loss(function: Callable[..., Any], start: Any) -> Any:
        return solve(function, diffrax.RecursiveCheckpointAdjoint(), W, start, adaptive=True).sum()

    starts = jnp.stack([START, 2 * START, -START])
    found, expected = (jax.jit(jax.vmap(jax.grad(partial(loss, function))))(starts) for function in bend)
    assert_close(found, expected)
