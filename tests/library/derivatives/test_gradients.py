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


@pytest.mark.parametrize("kernel", [product_of_arrays, product_of_tensors, product_on_the_host])
@pytest.mark.parametrize("transform", [*TRANSFORMS, "tape"])
@pytest.mark.parametrize("fits", [True, False])
def test_a_gradient_has_the_shape_of_its_input_or_is_refused(
    kernel: Any, transform: str, fits: bool, forget_ops: None
) -> None:
    op = custom_op("shaped::product", kernel)
    op.register_fake(lambda x, y, times=1: x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], inputs[1])

    def give(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        x_grad, y_grad = g * y, g * x
        return (x_grad, y_grad, None) if fits else (x_grad.reshape(1, -1, 1), y_grad.reshape(1, -1, 1), None)

    op.register_autograd(give, setup_context=save)

    def run() -> Any:
        if transform != "tape":
            return TRANSFORMS[transform](op)
        x = oplib.tensor([0.5, 1.0], requires_grad=True)
        op(x, oplib.tensor([0.5, 1.0])).sum().backward()
        return x.grad.array

    if fits:
        by_jax = jnp.ones(2) if transform == "vmap" else X
        expected = (X * X, 2 * X * X * 0.5) if transform == "jvp" else by_jax
        for one, other in zip(jax.tree.leaves(run()), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other)
    else:
        with pytest.raises(AutogradError, match=r"shaped::product: .*invalid gradient at index"):
            jax.block_until_ready(run())


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("transform", ["tape", "grad", "jit of grad"])
def test_a_complex_gradient_of_a_real_argument_is_refused(transform: str) -> None:
    @custom_op("shaped::turned", mutates_args=())
    def turned(x: jax.Array) -> jax.Array:
        return x * 2

    turned.register_autograd(lambda ctx, grad: grad * 2j)
    differentiate = jax.grad(lambda x: turned(x).sum())
    run = {
        "tape": lambda: turned(oplib.ones(2, requires_grad=True)).sum().backward(),
        "grad": lambda: differentiate(jnp.ones(2)),
        "jit of grad": lambda: jax.jit(differentiate)(jnp.ones(2)),
    }[transform]
    told = r"shaped::turned: .*got c64\[2\], but expected one for f32\[2\].*imaginary part"
    with pytest.raises(AutogradError, match=told):
        run()
