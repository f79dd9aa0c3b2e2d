"""A fixed point with an implicit derivative, as in deep equilibrium models, after JAX's page."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, params, start):
    def is_far(pair):
        return jnp.max(jnp.abs(pair[0] - pair[1])) > 1e-7

    def step(pair):
        return pair[1], f(params, pair[1])

    return jax.lax.while_loop(is_far, step, (start, f(params, start)))[1]


def fixed_point_fwd(f, params, start):
    solution = fixed_point(f, params, start)
    return solution, (params, solution)


def fixed_point_bwd(f, residuals, g):
    params, solution = residuals
    _, pull_params = jax.vjp(lambda params: f(params, solution), params)
    adjoint = fixed_point(partial(adjoint_step, f), (params, solution, g), g)
    return *pull_params(adjoint), jnp.zeros_like(solution)


def adjoint_step(f, constants, u):
    params, solution, g = constants
    return g + jax.vjp(lambda x: f(params, x), solution)[1](u)[0]


fixed_point.defvjp(fixed_point_fwd, fixed_point_bwd)
