"""The losses of the networks, written by hand in plain JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Loss = Callable[[Sequence[Any], Sequence[Any]], Any]


def lose_in_perceptron(parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """Computes the loss of ``network_models.make_perceptron``."""
    value, target = inputs
    for place in range(0, len(parameters), 2):
        if place:
            value = jax.nn.relu(value)
        weight, bias = parameters[place : place + 2]
        value = value @ weight.T + bias
    logs = jax.nn.log_softmax(value)
    return -jnp.mean(jnp.take_along_axis(logs, target[:, None], 1))


def make_transformer_loss(heads: int) -> Loss:
    """Makes the loss of ``network_models.make_transformer``."""

    def lose(parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
        mix, mix_bias, out, out_bias, up, up_bias, down, down_bias, *norms = parameters
        x, target = inputs
        batch, places, width = x.shape
        mixed = _normalise(x, *norms[:2]) @ mix.T + mix_bias
        query, key, value = jnp.moveaxis(mixed.reshape(batch, places, 3, heads, width // heads), 2, 0)
        seen = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + seen.reshape(batch, places, width) @ out.T + out_bias
        inner = jax.nn.gelu(_normalise(x, *norms[2:]) @ up.T + up_bias, approximate=False)
        return jnp.mean((x + inner @ down.T + down_bias - target) ** 2)

    return lose


def _normalise(x: Any, weight: Any, bias: Any) -> Any:
    return jax.nn.standardize(x, epsilon=1e-5) * weight + bias
