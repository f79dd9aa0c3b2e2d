"""How many gradients a formula gives, in every transformation of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError
from oplib.library import custom_op

X = jnp.array([0.5, 1.0])


def product_of_arrays(x: jax.Array, y: jax.Array, times: int = 1) -> jax.Array:
    return times * x * y


def product_of_tensors(x: oplib.Tensor, y: oplib.Tensor, times: int = 1) -> oplib.Tensor:
    return times * x * y


def product_on_the_host(x: np.ndarray, y: np.ndarray, times: int = 1) -> np.ndarray:
    return times * x * y


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda op: jax.grad(lambda x: op(x, X).sum())(X),
    "grad of the last": lambda op: jax.grad(lambda y: op(X, y).sum())(X),
    "jit": lambda op: jax.jit(jax.grad(lambda x: op(x, X).sum()))(X),
    "vmap": lambda op: jax.vmap(jax.grad(lambda x: op(x, 1.0)))(X),
    "jvp": lambda op: jax.jvp(lambda x: op(x, X), (X,), (X,)),
    "checkpoint": lambda op: jax.grad(jax.checkpoint(lambda x: op(x, X).sum()))(X),
}


@pytest.mark.parametrize("kernel", [product_of_arrays, product_of_tensors, product_on_the_host])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("gives", "count"),
    [(lambda g: g, 1), (lambda g: (g,), 1), (lambda g: (g, g, None, g), 4), (lambda g: [g, g, None], 1)],
    ids=["one", "a tuple of one", "four", "a list"],
)
def test_another_number_than_that_of_the_arguments_is_refused(
    kernel: Any, transform: str, gives: Any, count: int
) -> None:
    op = custom_op("counted::product", kernel)
    op.register_fake(lambda x, y, times=1: x)
    op.register_autograd(lambda ctx, g: gives(g))
    with pytest.raises(
        AutogradError, match=rf"counted::product: .*incorrect number of gradients\. Expected 3, got {count}"
    ):
        jax.block_until_ready(TRANSFORMS[transform](op))
