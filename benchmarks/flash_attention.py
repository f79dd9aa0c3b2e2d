"""Flash attention that saves its log-sum-exp: an op with a ``forward``, and a ``jax.custom_vjp`` by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import oplib

BLOCK = 64


def _cut(rows: jax.Array) -> jax.Array:
    return rows.reshape(-1, BLOCK, rows.shape[-1])


def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the attention, and the logarithm of the sum of exponentials of each row."""

    def step(carry: Any, block: Any) -> Any:
        top, total, result = carry
        scores = q @ block[0].T
        highest = jnp.maximum(top, scores.max(-1))
        shrink, weights = jnp.exp(top - highest), jnp.exp(scores - highest[:, None])
        total = total * shrink + weights.sum(-1)
        return (highest, total, result * shrink[:, None] + weights @ block[1]), None

    start = jnp.full(len(q), -jnp.inf), jnp.zeros(len(q)), jnp.zeros((len(q), v.shape[-1]))
    (top, total, result), _ = jax.lax.scan(step, start, (_cut(k), _cut(v)))
    return result / total[:, None], top + jnp.log(total)


def _pull(saved: Any, grad: jax.Array) -> tuple[jax.Array, ...]:
    q, k, v, result, logarithms = saved
    delta = (grad * result).sum(-1, keepdims=True)

    def step(by_q: jax.Array, block: Any) -> Any:
        weights = jnp.exp(q @ block[0].T - logarithms[:, None])
        by_scores = weights * (grad @ block[1].T - delta)
        return by_q + by_scores @ block[0], (by_scores.T @ q, weights.T @ grad)

    by_q, (by_k, by_v) = jax.lax.scan(step, jnp.zeros_like(q), (_cut(k), _cut(v)))
    return by_q, by_k.reshape(k.shape), by_v.reshape(v.shape)


@oplib.custom_op("bench::flash_attention")
def attention_op(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Computes attention."""
    return attend(q, k, v)[0]


def _forward(ctx: Any, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    result, logarithms = attend(q, k, v)
    ctx.save_for_backward(q, k, v, result, logarithms)
    return result


attention_op.register_autograd(lambda ctx, grad: _pull(ctx.saved_tensors, grad), forward=_forward)


@jax.custom_vjp
def attention_by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Computes the same in plain JAX, written by hand."""
    return attend(q, k, v)[0]


def _forward_by_hand(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    result, logarithms = attend(q, k, v)
    return result, (q, k, v, result, logarithms)


attention_by_hand.defvjp(_forward_by_hand, _pull)
