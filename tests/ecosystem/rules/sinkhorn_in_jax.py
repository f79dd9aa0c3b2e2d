"""The entropic cost of transport, whose gradient is the plan; Cuturi 2013, arXiv:1306.0895."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


def solve(cost, a, b, epsilon):
    def step(_, potentials):
        f, g = potentials
        f = epsilon * (jnp.log(a) - logsumexp((g - cost) / epsilon, axis=1))
        return f, epsilon * (jnp.log(b) - logsumexp((f[:, None] - cost) / epsilon, axis=0))

    f, g = jax.lax.fori_loop(0, 200, step, (jnp.zeros_like(a), jnp.zeros_like(b)))
    return f, g, jnp.exp((f[:, None] + g - cost) / epsilon)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def transport_cost(cost, a, b, epsilon):
    f, g, _ = solve(cost, a, b, epsilon)
    return f @ a + g @ b


def transport_fwd(cost, a, b, epsilon):
    # The call solves a second time, and keeps the rule for derivatives of the gradient.
    return transport_cost(cost, a, b, epsilon), solve(cost, a, b, epsilon)


def transport_bwd(epsilon, residuals, grad):
    f, g, plan = residuals
    return grad * plan, grad * f, grad * g


transport_cost.defvjp(transport_fwd, transport_bwd)
