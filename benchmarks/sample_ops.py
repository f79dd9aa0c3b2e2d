"""The measured op: two tensors, a default, a formula, and the same mathematics without oplib."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import oplib

SHAPE = (8, 8)  # small, because the overhead of oplib does not depend on the size


def soft_product(x: jax.Array, y: jax.Array, limit: float = 2.0) -> jax.Array:
    """Computes the product, limited smoothly to the range of ``limit``."""
    return limit * jnp.tanh(x * y / limit)


def save_for_soft_product(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Saves both factors and the result; the slope follows from the result."""
    x, y, ctx.limit = inputs
    ctx.save_for_backward(x, y, output)


def differentiate_soft_product(ctx: Any, grad: Any) -> tuple[Any, Any, None]:
    """Computes the backward."""
    x, y, output = ctx.saved_tensors
    slope = grad * (1 - (output / ctx.limit) ** 2)
    return slope * y, slope * x, None


soft_product_op = oplib.custom_op("bench::soft_product", soft_product)
soft_product_op.register_autograd(differentiate_soft_product, setup_context=save_for_soft_product)


@jax.custom_vjp
def soft_product_by_hand(x: jax.Array, y: jax.Array) -> jax.Array:
    """Computes the same in plain JAX, written by hand."""
    return soft_product(x, y)


def _forward_by_hand(x: jax.Array, y: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    output = soft_product(x, y)
    return output, (x, y, output)


def _backward_by_hand(residuals: tuple[jax.Array, ...], grad: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, y, output = residuals
    slope = grad * (1 - (output / 2.0) ** 2)
    return slope * y, slope * x


soft_product_by_hand.defvjp(_forward_by_hand, _backward_by_hand)


def make_arrays(count: int, shape: tuple[int, ...] = SHAPE) -> list[jax.Array]:
    """Makes operands whose products stay near one, so that a chain of them neither overflows nor vanishes."""
    keys = jax.random.split(jax.random.key(0), count)
    return [jax.random.uniform(key, shape, minval=0.9, maxval=1.1) for key in keys]


def make_leaves(arrays: list[jax.Array]) -> list[oplib.Tensor]:
    """Makes Tensors that require grad."""
    return [oplib.Tensor.from_array(array, requires_grad=True) for array in arrays]


def make_constants(arrays: list[jax.Array]) -> list[oplib.Tensor]:
    """Makes Tensors that do not require grad."""
    return [oplib.Tensor.from_array(array) for array in arrays]
