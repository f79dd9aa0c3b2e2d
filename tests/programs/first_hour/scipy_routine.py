"""A routine of scipy with its gradient: Kepler's equation E - e sin(E) = M, solved on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import newton

import oplib


@oplib.custom_op("first_hour::kepler")
def kepler(mean: np.ndarray, eccentricity: np.ndarray) -> np.ndarray:
    """Returns the eccentric anomaly of mean anomalies, item by item."""
    wide, e = mean.astype(np.float64), eccentricity.astype(np.float64)
    return newton(lambda x: x - e * np.sin(x) - wide, wide, lambda x: 1 - e * np.cos(x)).astype(mean.dtype)


@kepler.register_fake
def _(mean: jax.Array, eccentricity: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(mean.shape, mean.dtype)


def save(ctx: oplib.library.Context, inputs: Any, output: jax.Array) -> None:
    ctx.save_for_backward(inputs[1], output)


@kepler.register_autograd(setup_context=save)
def differentiate(ctx: oplib.library.Context, grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    e, anomaly = ctx.saved_tensors
    by_mean = grad / (1 - e * jnp.cos(anomaly))
    return by_mean, by_mean * jnp.sin(anomaly)


def main() -> None:
    mean, e = jnp.linspace(0.1, 3.0, 7), jnp.full(7, 0.3)
    anomaly = jax.jit(kepler)(mean, e)
    np.testing.assert_allclose(anomaly - e * jnp.sin(anomaly), mean, rtol=1e-5)
    step = 1e-2
    slope = (kepler(mean + step, e) - kepler(mean - step, e)) / (2 * step)
    np.testing.assert_allclose(jax.vmap(jax.grad(kepler))(mean, e), slope, rtol=1e-3)

    # An orbit is fitted to what was seen of it, on Tensors.
    seen = oplib.Tensor.from_array(kepler(mean, jnp.full(7, 0.45)))
    times, guess = oplib.Tensor.from_array(mean), oplib.tensor(0.1, requires_grad=True)
    optimizer = oplib.optim.Optimizer(optax.adam(0.05), [guess])

    def fit() -> oplib.Tensor:
        loss = ((kepler(times, guess.expand(7)) - seen) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    fit = oplib.jit(fit)
    for _ in range(100):
        fit()
    assert abs(guess.item() - 0.45) < 0.01, guess


if __name__ == "__main__":
    main()
