"""Gradient clipping after JAX's page on custom derivative rules."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def clip_gradient(x, low, high):
    return x


def clip_fwd(x, low, high):
    return clip_gradient(x, low, high), (low, high)


def clip_bwd(bounds, g):
    low, high = bounds
    return jnp.clip(g, low, high), None, None


clip_gradient.defvjp(clip_fwd, clip_bwd)
