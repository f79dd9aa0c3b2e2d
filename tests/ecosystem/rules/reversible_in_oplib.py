"""The reversible layers as an op."""

from typing import Any

import jax
import jax.numpy as jnp

import oplib


def branch(w, x):
    return jnp.tanh(x @ w)


@oplib.custom_op("rules::reversible")
def reversible(params: Any, x1: jax.Array, x2: jax.Array) -> tuple[jax.Array, jax.Array]:
    for wf, wg in params:
        x1 = x1 + branch(wf, x2)
        x2 = x2 + branch(wg, x1)
    return x1, x2


def save(ctx, inputs, output):
    ctx.params = inputs[0]
    ctx.save_for_backward(*output)


@reversible.register_autograd(setup_context=save)
def reversible_backward(ctx, g1, g2):
    y1, y2 = ctx.saved_tensors
    by_params = []
    for wf, wg in reversed(ctx.params):
        out, pull = jax.vjp(branch, wg, y1)
        by_wg, by_y1 = pull(g2)
        g1, y2 = g1 + by_y1, y2 - out
        out, pull = jax.vjp(branch, wf, y2)
        by_wf, by_y2 = pull(g1)
        g2, y1 = g2 + by_y2, y1 - out
        by_params.append((by_wf, by_wg))
    return by_params[::-1], g1, g2
