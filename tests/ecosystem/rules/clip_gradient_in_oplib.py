"""Gradient clipping as an op."""

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("rules::clip_gradient")
def clip_gradient(x: jax.Array, low: float, high: float) -> jax.Array:
    return x


def save(ctx, inputs, output):
    _, ctx.low, ctx.high = inputs


@clip_gradient.register_autograd(setup_context=save, nonlinear=True)
def clip_backward(ctx, g):
    return jnp.clip(g, ctx.low, ctx.high), None, None
