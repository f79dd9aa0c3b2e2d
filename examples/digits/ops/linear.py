"""A linear layer with an optional bias and an activation."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("digits::linear")
def linear(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    activation: Literal["none", "relu"] = "none",
) -> jax.Array:
    """Returns ``activation(x @ weight + bias)`` for ``weight`` [inputs, outputs]."""
    y = x @ weight if bias is None else x @ weight + bias
    return jnp.maximum(y, 0) if activation == "relu" else y


def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    """Saves the output instead of the input of the activation: its sign shows where relu was active."""
    x, weight, bias = inputs
    ctx.activation = keyword_only_inputs["activation"]
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight, output if ctx.activation == "relu" else None)


@linear.register_autograd(setup_context=save)
def linear_backward(ctx: Any, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Returns one gradient per positional argument; an absent bias has none."""
    x, weight, output = ctx.saved_tensors
    if output is not None:
        g = jnp.where(output > 0, g, 0)
    return g @ weight.T, x.T @ g, g.sum(axis=0) if ctx.has_bias else None
