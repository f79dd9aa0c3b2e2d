"""Three ops with formulas of their own, for Tensors and for arrays in ``shard_map``."""

import jax
import jax.numpy as jnp

import oplib
from oplib.library import Context


def keep_arguments(ctx: Context, inputs: tuple[jax.Array, ...], output: jax.Array) -> None:
    """Saves what the backward formula reads."""
    ctx.save_for_backward(*inputs)


@oplib.custom_op("lm::rms_norm")
def rms_norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Scales the rows of ``x`` [..., width] to a root mean square of one, and then by ``weight`` [width]."""
    return x * invert_rms(x) * weight


def invert_rms(x: jax.Array) -> jax.Array:
    """Returns one over the root mean square of each row."""
    return jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


@rms_norm.register_autograd(setup_context=keep_arguments)
def rms_norm_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    """With n = x / rms(x): dx = (gw - n mean(gw n)) / rms(x), and dw is the sum of g n over the rows."""
    x, weight = ctx.saved_tensors
    inverse = invert_rms(x)
    normed, weighted = x * inverse, g * weight
    dx = (weighted - normed * jnp.mean(weighted * normed, -1, keepdims=True)) * inverse
    return dx, (g * normed).sum(tuple(range(x.ndim - 1)))


@oplib.custom_op("lm::attention")
def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Weighs the values [..., length, size] up to each position by softmax(query key / sqrt(size))."""
    return compare(query, key) @ value


def compare(query: jax.Array, key: jax.Array) -> jax.Array:
    """Returns the weights [..., length, length], which are 0 for later positions."""
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf))


@attention.register_autograd(setup_context=keep_arguments)
def attention_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Computes the weights again, instead of keeping them: they are the largest arrays of a layer."""
    query, key, value = ctx.saved_tensors
    weights = compare(query, key)
    towards = weights * (g @ value.mT)
    scores = (towards - weights * towards.sum(-1, keepdims=True)) * query.shape[-1] ** -0.5
    return scores @ key, scores.mT @ query, weights.mT @ g


@oplib.custom_op("lm::cross_entropy")
def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns the mean of -log softmax(logits)[target]; ``logits`` [..., classes], ``targets`` [...]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()


def keep_logarithms(ctx: Context, logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Saves log softmax(logits), so that devices which share the classes add up their sums once a step."""
    logarithms = jax.nn.log_softmax(logits)
    ctx.save_for_backward(logarithms, targets)
    return -jnp.take_along_axis(logarithms, targets[..., None], -1).mean()


@cross_entropy.register_autograd(forward=keep_logarithms)
def cross_entropy_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, None]:
    """Returns (softmax - one-hot) / rows."""
    logarithms, targets = ctx.saved_tensors
    expected = jax.nn.one_hot(targets, logarithms.shape[-1], dtype=logarithms.dtype)
    return (jnp.exp(logarithms) - expected) * (g / targets.size), None
