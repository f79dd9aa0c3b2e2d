"""Three ops with formulas of their own. Each is defined once for Tensors and for arrays in ``shard_map``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import oplib
from oplib.library import Context


@oplib.custom_op("lm::rms_norm")
def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Scales the rows of ``x`` [..., width] to a root mean square of one, and then by ``weight`` [width]."""
    return x * _invert_rms(x) * weight


def _invert_rms(x: jax.Array) -> jax.Array:
    return jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def _save_norm(ctx: Context, inputs: tuple[jax.Array, jax.Array], output: jax.Array) -> None:
    x, weight = inputs
    ctx.save_for_backward(x, weight, _invert_rms(x))


@rms_norm.register_autograd(setup_context=_save_norm)
def rms_norm_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    """With n = x / rms(x): dx = (gw - n mean(gw n)) / rms(x), and dw is the sum of g n over the rows."""
    x, weight, inverse = ctx.saved_tensors
    normed, weighted = x * inverse, g * weight
    dx = (weighted - normed * jnp.mean(weighted * normed, -1, keepdims=True)) * inverse
    return dx, (g * normed).sum(tuple(range(x.ndim - 1)))


@oplib.custom_op("lm::attention")
def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Returns for each position the mean of the values up to it, weighted by softmax(query key / sqrt(size)).

    All arguments and the result have the shape [batch, heads, length, size].
    """
    return _weigh(query, key) @ value


def _weigh(query: jax.Array, key: jax.Array) -> jax.Array:
    scores = query @ key.mT * query.shape[-1] ** -0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))


def _save_attention(ctx: Context, inputs: tuple[jax.Array, ...], output: jax.Array) -> None:
    ctx.save_for_backward(*inputs, output)


@attention.register_autograd(setup_context=_save_attention)
def attention_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Computes the weights again instead of keeping [length, length] numbers for each head.

    Source: Dao and others, "FlashAttention", 2022: the sum of the weights' gradients is that of g * output.
    """
    query, key, value, output = ctx.saved_tensors
    weights = _weigh(query, key)
    towards = (g @ value.mT - (g * output).sum(-1, keepdims=True)) * weights * query.shape[-1] ** -0.5
    return towards @ key, towards.mT @ query, weights.mT @ g


@oplib.custom_op("lm::cross_entropy")
def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns the mean of -log softmax(logits)[target]; ``logits`` [..., classes], ``targets`` [...]."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
    return -picked.mean()


def _save_logits(ctx: Context, inputs: tuple[jax.Array, jax.Array], output: jax.Array) -> None:
    ctx.save_for_backward(*inputs)


@cross_entropy.register_autograd(setup_context=_save_logits)
def cross_entropy_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, None]:
    """Returns (softmax - one-hot) / rows."""
    logits, targets = ctx.saved_tensors
    expected = jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
    return (jax.nn.softmax(logits) - expected) * (g / targets.size), None
