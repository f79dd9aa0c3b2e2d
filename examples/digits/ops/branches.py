"""Several linear maps of one input as one matrix product, with lists of tensors as argument and result."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("digits::branches")
def branches(x: jax.Array, weights: list[jax.Array]) -> list[jax.Array]:
    """Returns ``x @ weight`` for each of ``weights`` [inputs, outputs]; the numbers of outputs may differ."""
    widths = [weight.shape[1] for weight in weights]
    return jnp.split(x @ jnp.concatenate(weights, axis=1), list(accumulate(widths))[:-1], axis=1)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the inputs; the weights are saved on ctx as a list."""
    x, ctx.weights = inputs
    ctx.save_for_backward(x)


@branches.register_autograd(setup_context=save)
def branches_backward(ctx: Any, g: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
    """Takes a list of gradients for the list of results, and returns one for the list of weights."""
    (x,) = ctx.saved_tensors
    gx = sum(grad @ weight.T for grad, weight in zip(g, ctx.weights, strict=True))
    return gx, [x.T @ grad for grad in g]
