"""RMS norm in one compiled kernel, with a formula that reuses the norm."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("digits::rms_norm")
def rms_norm(x: jax.Array, weight: jax.Array, eps: float = 1e-6) -> jax.Array:
    """Scales each row of ``x`` to a root mean square of one, then each column by ``weight``.

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """
    return x * invert_rms(x, eps) * weight


def invert_rms(x: jax.Array, eps: float) -> jax.Array:
    """Returns one over the root mean square of each row."""
    return jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the inputs and the inverse norm, which the same program computes anyway."""
    x, weight, eps = inputs
    ctx.save_for_backward(x, weight, invert_rms(x, eps))


@rms_norm.register_autograd(setup_context=save)
def rms_norm_backward(ctx: Any, g: jax.Array) -> tuple[jax.Array, jax.Array, None]:
    """With n = x / rms(x): dx = (gw - n mean(gw n)) / rms(x), dw = sum of g n over the rows."""
    x, weight, inverse_rms = ctx.saved_tensors
    normed = x * inverse_rms
    weighted = g * weight
    along = jnp.mean(weighted * normed, axis=-1, keepdims=True)
    rows = tuple(range(x.ndim - 1))
    return (weighted - normed * along) * inverse_rms, jnp.sum(g * normed, axis=rows), None
