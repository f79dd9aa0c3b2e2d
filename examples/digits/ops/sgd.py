"""A step of stochastic gradient descent over all parameters at once, in place."""

from __future__ import annotations

import jax

import oplib


@oplib.custom_op("digits::sgd_", mutates_args=("params", "velocities"), operand=("lr",))
def sgd_(
    params: list[jax.Array],
    velocities: list[jax.Array],
    grads: list[jax.Array],
    *,
    lr: float,
    momentum: float = 0.9,
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Writes ``velocity = momentum * velocity + grad`` and ``param = param - lr * velocity``.

    The kernel is a pure function: it returns the new values in the order of the written arguments. ``lr`` is
    an operand, because a schedule changes it at every step; ``momentum`` is static.
    """
    velocities = [momentum * velocity + grad for velocity, grad in zip(velocities, grads, strict=True)]
    params = [param - lr * velocity for param, velocity in zip(params, velocities, strict=True)]
    return params, velocities
