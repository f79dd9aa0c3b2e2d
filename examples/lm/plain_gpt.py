"""The same model and step in JAX and optax alone; the tests compare its losses with ``train_gpt.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gpt import BLOCK

Params = dict[str, jax.Array]


def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """The RMS norm."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def block(x: jax.Array, weights: list[jax.Array]) -> tuple[jax.Array, None]:
    """One layer, for ``jax.lax.scan``."""
    norm1, inward, outward, norm2, up, down = weights
    query, key, value = jnp.einsum("btd,dchk->cbhtk", norm(x, norm1), inward)
    scores = jnp.einsum("bhtk,bhsk->bhts", query, key) * query.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    x = x + jnp.einsum("bhts,bhsk,hkd->btd", jax.nn.softmax(scores), value, outward)
    return x + jax.nn.gelu(norm(x, norm2) @ up) @ down, None


def loss(params: Params, windows: jax.Array) -> jax.Array:
    """The mean cross-entropy of ``windows`` [batch, length]."""
    codes, targets = windows[:, :-1], windows[:, 1:]
    x = params["letters"][codes] + params["positions"][: codes.shape[1]]
    x, _ = jax.lax.scan(block, x, [params[f"blocks.{name}"] for name in BLOCK])
    logits = norm(x, params["norm"]) @ params["letters"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def make_step(optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    """Returns a compiled step of training."""

    @jax.jit
    def step(params: Params, state: Any, windows: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, grads = jax.value_and_grad(loss)(params, windows)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step


def train(
    params: Params, optimizer: optax.GradientTransformation, batches: Iterable[jax.Array]
) -> list[float]:
    """Returns the loss of each batch, before its step."""
    state, step, losses = optimizer.init(params), make_step(optimizer), []
    for windows in batches:
        params, state, value = step(params, state, windows)
        losses.append(float(value))
    return losses
