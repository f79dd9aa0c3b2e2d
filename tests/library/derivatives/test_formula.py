"""The formula of an op as a function of arrays: when JAX may differentiate it again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from oplib.autograd import Function
from oplib.autograd.function import once_differentiable
from oplib.errors import AutogradError


class Product(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0], None


X, W = jnp.float32(3.0), jnp.float32(5.0)


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, jax.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_a_formula_that_is_differentiable_once_is_differentiated_where_what_it_saved_is_constant(
    around: Any,
) -> None:
    gradient = around(jax.grad(Product.apply))
    assert gradient(X, W) == 5
    assert jax.grad(lambda x: x * gradient(x, W))(X) == 5
    with pytest.raises(AutogradError, match="once_differentiable: trying to differentiate twice"):
        jax.grad(lambda w: gradient(X, w))(W)
    with pytest.raises(AutogradError, match="once_differentiable: trying to differentiate twice"):
        jax.jvp(lambda w: gradient(X, w), (W,), (W,))
