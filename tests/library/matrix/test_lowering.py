"""Ops of each kind, Functions and compiled programs lower for accelerators, on a machine without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import MissingRuleError
from tests.examples.accelerators import PLATFORMS, lower

X = jnp.linspace(0.1, 0.9, 6).reshape(2, 3)

Function = Callable[..., Any]


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def make_on_arrays() -> Function:
    @oplib.custom_op
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    cube.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=save_inputs)
    return cube


def make_on_tensors() -> Function:
    @oplib.custom_op
    def cube(x: oplib.Tensor) -> oplib.Tensor:
        return x**3

    cube.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=save_inputs)
    return cube


def make_derived() -> Function:
    @oplib.custom_op(autograd="derive")
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    return cube


def make_with_jvp() -> Function:
    @oplib.custom_op
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    @cube.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        return cube(*primals), 3 * tangents[0] * primals[0] ** 2

    return cube


def make_on_trees() -> Function:
    @oplib.custom_op
    def powers(xs: list[jax.Array]) -> dict[str, jax.Array]:
        return {"two": xs[0] ** 2, "three": xs[1] ** 3}

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.xs = inputs[0]

    @powers.register_autograd(setup_context=save)
    def backward(ctx: Any, grads: Any) -> Any:
        return [2 * grads["two"] * ctx.xs[0], 3 * grads["three"] * ctx.xs[1] ** 2]

    return lambda x: sum(powers([x, 2 * x]).values())


def make_written() -> Function:
    @oplib.custom_op(mutates_args=("x",))
    def triple(x: oplib.Tensor) -> None:
        x.mul_(3)

    def run(x: jax.Array) -> jax.Array:
        tensor = oplib.Tensor.from_array(jax.lax.stop_gradient(x)).clone()
        triple(tensor)
        return x * tensor.array

    return run


def make_function() -> Function:
    class Cube(oplib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * g * ctx.saved_tensors[0] ** 2

    return Cube.apply


def make_function_on_arrays() -> Function:
    class Cube(oplib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: jax.Array) -> jax.Array:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: jax.Array) -> jax.Array:
            return 3 * g * ctx.saved_tensors[0] ** 2

    return Cube.apply


def make_compiled() -> Function:
    cube = make_on_arrays()

    @oplib.jit
    def step(w: oplib.Tensor) -> oplib.Tensor:
        (cube(w).sum() ** 2).backward()
        return w.grad

    return lambda x: step(oplib.Tensor.from_array(x, requires_grad=True)).array


KINDS: dict[str, Callable[[], Function]] = {
    "on arrays": make_on_arrays,
    "on Tensors": make_on_tensors,
    "derived": make_derived,
    "with a jvp rule": make_with_jvp,
    "on trees": make_on_trees,
    "with a written argument": make_written,
    "a Function": make_function,
    "a Function on arrays": make_function_on_arrays,
}
WAYS: dict[str, Callable[[Function], Function]] = {
    "called": lambda function: function,
    "gradient": lambda function: jax.grad(lambda x: function(x).sum()),
    "second gradient": lambda function: jax.hessian(lambda x: function(x).sum()),
    "forward mode": lambda function: lambda x: jax.jvp(function, (x,), (x,)),
    "mapped": lambda function: jax.vmap(jax.grad(lambda x: function(x).sum())),
    "in a loop": lambda function: jax.grad(
        lambda x: jax.lax.scan(lambda carry, _: (function(carry), None), x, length=3)[0].sum()
    ),
}

each_platform = pytest.mark.parametrize("platform", PLATFORMS)


@pytest.mark.matrix(4)
@each_platform
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_lowers_in_each_way(kind: str, way: str, platform: str) -> None:
    assert "stablehlo" in lower(WAYS[way](KINDS[kind]()), [X], platform)


@each_platform
def test_a_step_of_oplib_jit_lowers(platform: str) -> None:
    assert "stablehlo" in lower(make_compiled(), [X], platform)


@pytest.mark.parametrize("way", ["called", "mapped"])
def test_what_jax_cannot_lower_names_op_and_platform(way: str) -> None:
    @oplib.custom_op
    def spectrum(x: jax.Array) -> jax.Array:
        return jnp.linalg.eigvals(x)

    run = spectrum if way == "called" else jax.vmap(spectrum)
    with pytest.raises(
        MissingRuleError, match=r"local::spectrum: JAX cannot lower the kernel for tpu\. Got:"
    ):
        lower(run, [jnp.eye(3) if way == "called" else jnp.stack([jnp.eye(3)] * 2)], "tpu")
    lower(run, [jnp.eye(3) if way == "called" else jnp.stack([jnp.eye(3)] * 2)], "cpu")
