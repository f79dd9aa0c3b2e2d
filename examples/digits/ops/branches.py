"""Several linear maps of one input as one matrix product: lists of tensors in and out."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("digits::branches")
def branches(x: jax.Array, weights: list[jax.Array]) -> list[jax.Array]:
    """Returns ``x @ weight`` for each of ``weights`` [inputs, outputs], outputs as many as each has."""
    widths = [weight.shape[1] for weight in weights]
    return jnp.split(x @ jnp.concatenate(weights, axis=1), list(accumulate(widths))[:-1], axis=1)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the inputs, and on ctx the list of weights as a list."""
    x, ctx.weights = inputs
    ctx.save_for_backward(x)


@branches.register_autograd(setup_context=save)
def branches_backward(ctx: Any, g: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
    """A list of gradients comes in for the list of results, and one goes out for the list of weights."""
    (x,) = ctx.saved_tensors
    gx = sum(grad @ weight.T for grad, weight in zip(g, ctx.weights, strict=True))
    return gx, [x.T @ grad for grad in g]
