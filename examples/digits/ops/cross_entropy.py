"""Softmax and cross-entropy in one op, which large logits and small probabilities do not overflow."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

import oplib


@oplib.custom_op("digits::cross_entropy")
def cross_entropy(
    logits: jax.Array, targets: jax.Array, reduction: Literal["mean", "sum", "none"] = "mean"
) -> jax.Array:
    """Returns minus the log of the probability that ``logits`` [rows, classes] give to ``targets`` [rows]."""
    picked = jnp.take_along_axis(log_softmax(logits), targets[:, None], axis=-1)[:, 0]
    return {"mean": jnp.mean, "sum": jnp.sum, "none": jnp.asarray}[reduction](-picked)


def log_softmax(logits: jax.Array) -> jax.Array:
    """Returns the log of the softmax of each row; the largest logit is subtracted before the exponential."""
    shifted = logits - jnp.max(logits, axis=-1, keepdims=True)
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves the log probabilities, an intermediate of the kernel, instead of the logits."""
    logits, targets, ctx.reduction = inputs
    ctx.save_for_backward(log_softmax(logits), targets)


@cross_entropy.register_autograd(setup_context=save)
def cross_entropy_backward(ctx: Any, g: jax.Array) -> tuple[jax.Array, None, None]:
    """Returns softmax minus one-hot, which is simpler than the composition of the two derivatives."""
    log_probabilities, targets = ctx.saved_tensors
    rows, classes = log_probabilities.shape
    expected = jax.nn.one_hot(targets, classes, dtype=log_probabilities.dtype)
    per_row = g[:, None] if ctx.reduction == "none" else g / rows if ctx.reduction == "mean" else g
    return (jnp.exp(log_probabilities) - expected) * per_row, None, None
