"""Samplers of numpyro and blackjax whose density is an op: the chains are those with the rule in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.ecosystem.packages import require
from tests.ecosystem.pairs import Pair

X = jnp.linspace(-2.0, 2.0, 12)
Y = jnp.tanh(0.8 * X) + 0.1 * jnp.cos(7 * X)


def sample_numpyro(bend: Callable[..., Any], sampler: str) -> Any:
    numpyro = require("numpyro")
    infer, distributions = require("numpyro.infer"), numpyro.distributions

    def model() -> None:
        slope = numpyro.sample("slope", distributions.Normal(0.0, 1.0))
        numpyro.sample("y", distributions.Normal(bend(slope * X), 0.3), obs=Y)

    # A step size that adapts gets tiny, since the gradient is not quite that of the density.
    options = {"trajectory_length": 0.8} if sampler == "HMC" else {"max_tree_depth": 4}
    kernel = getattr(infer, sampler)(model, step_size=0.1, adapt_step_size=False, **options)
    mcmc = infer.MCMC(kernel, num_warmup=10, num_samples=40, progress_bar=False)
    mcmc.run(jax.random.key(0))
    return mcmc.get_samples()["slope"]


def sample_blackjax(bend: Callable[..., Any], sampler: str) -> Any:
    blackjax = require("blackjax")

    def log_density(slope: Any) -> Any:
        return -0.5 * slope**2 - 0.5 * (((Y - bend(slope * X)) / 0.3) ** 2).sum()

    options = {"num_integration_steps": 8} if sampler == "hmc" else {"max_num_doublings": 4}
    kernel = getattr(blackjax, sampler)(log_density, 0.05, jnp.ones(1), **options)

    @jax.jit
    def run(key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, kernel.init(jnp.zeros(())), jax.random.split(key, 60))[1]

    return run(jax.random.key(0))


SAMPLERS = {
    "numpyro HMC": (sample_numpyro, "HMC"),
    "numpyro NUTS": (sample_numpyro, "NUTS"),
    "blackjax hmc": (sample_blackjax, "hmc"),
    "blackjax nuts": (sample_blackjax, "nuts"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_chain_is_that_with_the_rule_in_jax(bend: Pair, name: str) -> None:
    sample, sampler = SAMPLERS[name]
    found, expected = (np.asarray(sample(function, sampler)) for function in bend)
    assert len(np.unique(found)) > 10
    np.testing.assert_allclose(found[:20], expected[:20], rtol=1e-3)
