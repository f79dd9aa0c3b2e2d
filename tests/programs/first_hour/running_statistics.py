"""Running statistics: an op that writes the mean and the variance of what it has seen into its arguments."""

import jax
import jax.numpy as jnp
import numpy as np

import oplib
import oplib.nn.functional as F


@oplib.custom_op("first_hour::track_", mutates_args=("mean", "var"))
def track_(
    mean: jax.Array, var: jax.Array, x: jax.Array, momentum: float = 0.1
) -> tuple[jax.Array, jax.Array]:
    """Moves mean and variance of columns towards those of a batch."""
    return mean + momentum * (x.mean(0) - mean), var + momentum * (x.var(0, ddof=1) - var)


def main() -> None:
    batches = np.random.default_rng(0).normal(2.0, 3.0, (20, 16, 4)).astype(np.float32)
    mean, var = oplib.zeros(4), oplib.ones(4)
    due_mean, due_var = oplib.zeros(4), oplib.ones(4)
    weight = oplib.ones(4, requires_grad=True)

    @oplib.jit
    def step(x: oplib.Tensor) -> oplib.Tensor:
        track_(mean, var, x)
        y = (x - mean) / (var + 1e-5).sqrt() * weight
        (y**2).mean().backward()
        return y.detach()

    for batch in batches:
        step(oplib.tensor(batch))
        F.batch_norm(oplib.tensor(batch), due_mean, due_var, training=True)
    oplib.testing.assert_close(mean, due_mean)
    oplib.testing.assert_close(var, due_var, rtol=1e-5, atol=1e-5)
    assert step.compilations == 2, step.explain(oplib.tensor(batches[0]))  # the first call found no gradient
    assert weight.grad is not None

    # In plain JAX the op is a function of the statistics, for instance in a scan.
    def body(state: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        return track_.functional(*state, x), None

    (last, _), _ = jax.lax.scan(body, (jnp.zeros(4), jnp.ones(4)), jnp.asarray(batches))
    np.testing.assert_allclose(last, mean.array, rtol=1e-5)


if __name__ == "__main__":
    main()
