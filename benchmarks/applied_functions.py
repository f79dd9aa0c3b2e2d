"""A Function inside JAX, on Tensors and on arrays: beside ``jax.custom_vjp`` and beside the same op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import oplib

from .cases import apply_twice, chaining, differentiate
from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, soft_product, soft_product_by_hand, soft_product_op
from .table import Row

CONTROL = "jax.custom_vjp"
CHAINS = (1, 50)
LIMIT = 2.0


class SoftProduct(oplib.autograd.Function):
    """The measured op as a Function on Tensors."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        """Computes the product, limited smoothly, and saves both factors and the result."""
        output = LIMIT * oplib.tanh(x * y / LIMIT)
        ctx.save_for_backward(x, y, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> tuple[Any, Any]:
        """Computes the backward."""
        x, y, output = ctx.saved_tensors
        slope = grad * (1 - (output / LIMIT) ** 2)
        return slope * y, slope * x


class SoftProductOnArrays(SoftProduct):
    """The same on arrays, compiled as a kernel is."""

    @staticmethod
    def forward(ctx: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        """Computes as above."""
        output = soft_product(x, y)
        ctx.save_for_backward(x, y, output)
        return output


def measure_functions(effort: Effort) -> Iterator[Row]:
    """Yields running and tracing, with the gradient and without, for both kinds of Functions."""
    arrays = make_arrays(2, (128, 128))
    for kind, apply in (("on Tensors", SoftProduct.apply), ("on arrays", SoftProductOnArrays.apply)):
        for name, wrap in (("jit", apply_twice), ("jit(grad)", differentiate)):
            compiled = [Case(jax.jit(wrap(rule)), *arrays) for rule in (apply, soft_product_by_hand)]
            yield Row(f"Function {kind} in {name}: running", CONTROL, 1.03, compare(*compiled, effort))
        for number in CHAINS:
            tracing = [chaining(rule, number, is_compiled=False) for rule in (apply, soft_product_by_hand)]
            what = f"Function {kind} in jit(grad): tracing alone {number} calls"
            yield Row(what, CONTROL, 1.6, compare(*tracing, effort))
    small = make_arrays(2)
    pair = [Case(rule, *small) for rule in (SoftProductOnArrays.apply, soft_product_op)]
    yield Row("Function on arrays, called on arrays", "the op", 1.5, compare(*pair, effort))
    pair = [Case(_step, rule, *small) for rule in (SoftProductOnArrays.apply, soft_product_op)]
    yield Row("Function on arrays, on Tensors and backward", "the op", 1.5, compare(*pair, effort))


def _step(rule: Any, x: jax.Array, y: jax.Array) -> Any:
    a, b = (oplib.tensor(value, requires_grad=True) for value in (x, y))
    rule(a, b).sum().backward()
    return jnp.stack([a.grad.array, b.grad.array])
