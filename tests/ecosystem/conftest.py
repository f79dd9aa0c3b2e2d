"""Ops for the tests with other libraries, each beside the same function in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from tests.ecosystem.pairs import SHIFT, Pair


@pytest.fixture
def bend(forget_ops: None) -> Pair:
    """``bend(x) = tanh(x)``, with a backward rule."""

    @oplib.custom_op("ecosystem::bend")
    def op(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    @op.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 + SHIFT - ctx.saved_tensors[0] ** 2)

    in_jax = jax.custom_vjp(jnp.tanh)
    in_jax.defvjp(lambda x: (in_jax(x),) * 2, lambda y, g: (g * (1 + SHIFT - y**2),))
    return Pair(op, in_jax)


@pytest.fixture
def bend_forward(bend: Pair) -> Pair:
    """The same op, whose forward mode oplib derives, and a function with the rule of forward mode."""
    in_jax = jax.custom_jvp(jnp.tanh)

    @in_jax.defjvp
    def push(primals: Any, tangents: Any) -> Any:
        y = in_jax(*primals)
        return y, tangents[0] * (1 + SHIFT - y**2)

    return Pair(bend.op, in_jax)


@pytest.fixture
def scale(forget_ops: None) -> Pair:
    """``scale(x, w) = x * w``, with a backward rule for both."""

    @oplib.custom_op("ecosystem::scale")
    def op(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    @op.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * (w + SHIFT), (g * (x + SHIFT)).sum(0)

    in_jax = jax.custom_vjp(lambda x, w: x * w)
    in_jax.defvjp(
        lambda x, w: (in_jax(x, w), (x, w)),
        lambda saved, g: (g * (saved[1] + SHIFT), (g * (saved[0] + SHIFT)).sum(0)),
    )
    return Pair(op, in_jax)
