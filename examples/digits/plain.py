"""The same network in plain jax.numpy, without oplib, to compare with ``jax.grad``."""

from __future__ import annotations

import jax
import jax.numpy as jnp

Arrays = dict[str, jax.Array]


def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Scales rows to a root mean square of one, columns by ``weight``."""
    return x / jnp.sqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * weight


def classify(params: Arrays, images: jax.Array) -> jax.Array:
    """Returns the logits."""
    x = images.reshape(len(images), -1)
    x = jax.nn.relu(x @ params["stem.weight"] + params["stem.bias"])
    normed = rms_norm(x, params["block.norm"])
    x = x + jax.nn.sigmoid(normed @ params["block.gate"]) * (normed @ params["block.value"])
    return rms_norm(x, params["head.norm"]) @ params["head.weight"]


def compute_loss(params: Arrays, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean cross-entropy."""
    logs = jax.nn.log_softmax(classify(params, images))
    return -jnp.mean(logs[jnp.arange(len(labels)), labels])
