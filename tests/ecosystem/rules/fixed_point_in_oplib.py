"""The fixed point as an op. Static arguments must be equal to share code, so adjoints are cached."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("rules::fixed_point")
def fixed_point(f: Callable[..., jax.Array], params: Any, start: jax.Array) -> jax.Array:
    def is_far(pair):
        return jnp.max(jnp.abs(pair[0] - pair[1])) > 1e-7

    def step(pair):
        return pair[1], f(params, pair[1])

    return jax.lax.while_loop(is_far, step, (start, f(params, start)))[1]


def save(ctx, inputs, output):
    ctx.f, ctx.params, _ = inputs
    ctx.save_for_backward(output)


@fixed_point.register_autograd(setup_context=save)
def fixed_point_backward(ctx, g):
    (solution,) = ctx.saved_tensors
    _, pull_params = jax.vjp(lambda params: ctx.f(params, solution), ctx.params)
    adjoint = fixed_point(adjoint_of(ctx.f), (ctx.params, solution, g), g)
    return None, *pull_params(adjoint), jnp.zeros_like(solution)


def adjoint_step(f, constants, u):
    params, solution, g = constants
    return g + jax.vjp(lambda x: f(params, x), solution)[1](u)[0]


@cache
def adjoint_of(f):
    return partial(adjoint_step, f)
