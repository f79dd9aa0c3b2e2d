"""``jax.typing.ArrayLike`` annotates a tensor argument that takes numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.typing import ArrayLike

import oplib
from oplib.errors import ArgumentTypeError


@oplib.custom_op("array_like::scale")
def scale(x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None) -> jax.Array:
    scaled = jnp.sin(x) * w
    return scaled if bias is None else scaled + bias


@scale.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
def scale_backward(ctx: Any, g: Any) -> Any:
    x, w, bias = ctx.saved_tensors
    to_shape = lambda value, like: jnp.broadcast_to(value, g.shape).sum() if like.ndim < g.ndim else value  # noqa: E731
    of_bias = None if bias is None else to_shape(g, bias)
    return to_shape(g * w * jnp.cos(x), x), to_shape(g * jnp.sin(x), w), of_bias


def compute(x: Any, w: Any, bias: Any = None) -> Any:
    return jnp.sin(x) * w + (0.0 if bias is None else bias)


X = jnp.array([0.5, 1.0])
VALUES: dict[str, tuple[Any, ...]] = {
    "arrays": (X, X),
    "a number": (X, 3.0),
    "two numbers": (X, 3.0, 2.0),
    "numpy": (np.array([0.5, 1.0], np.float32), np.float32(3)),
    "an array of integers": (jnp.array([1, 2]), 3.0),
}


@pytest.mark.parametrize("title", VALUES)
def test_it_takes_what_jax_takes(title: str) -> None:
    values = VALUES[title]
    np.testing.assert_allclose(scale(*values), compute(*values), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(scale)(*values), compute(*values), rtol=1e-6)


@pytest.mark.parametrize(
    "differentiate",
    [jax.grad, lambda f, n: jax.jit(jax.grad(f, n)), lambda f, n: jax.jacfwd(f, n), jax.jacrev],
    ids=["grad", "jit", "jacfwd", "jacrev"],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_numbers_are_differentiated(differentiate: Callable[..., Any], place: int) -> None:
    values = X, 3.0, 2.0
    actual = differentiate(lambda *given: scale(*given).sum(), place)(*values)
    expected = differentiate(lambda *given: compute(*given).sum(), place)(*values)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_a_tensor_and_a_number_are_taken_together() -> None:
    x = oplib.Tensor.from_array(X, requires_grad=True)
    scale(x, 3.0).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.array, 3 * np.cos(X), rtol=1e-6)


def test_a_string_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="array_like::scale: argument 'w'"):
        scale(X, "3")
