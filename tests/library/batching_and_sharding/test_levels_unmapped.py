"""Collectives in an op where the map that names their axis maps none of the op's arguments."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib

KERNELS = {
    "psum": lambda x: jax.lax.psum(x, "i"),
    "axis_index": lambda x: x * (jax.lax.axis_index("i") + 1),
    "all_gather": lambda x: jax.lax.all_gather(x, "i"),
    "none": lambda x: x * 2,
}


def map_unmapped(function: Any) -> Any:
    return jax.vmap(function, in_axes=None, axis_name="i", axis_size=4)


WAYS = {
    "vmap": lambda f: map_unmapped(f)(2.0),
    "jit of vmap": lambda f: jax.jit(map_unmapped(f))(2.0),
    "vmap of jit": lambda f: map_unmapped(jax.jit(f))(2.0),
    "vmap of vmap": lambda f: jax.vmap(map_unmapped(f))(jnp.arange(2.0)),
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("derived", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_a_collective_finds_the_axis_of_a_map_that_maps_no_argument(name, derived, compiled):
    kernel = KERNELS[name]

    def function(x: jax.Array) -> jax.Array:
        return kernel(x)

    op = oplib.library.custom_op(function, compile=compiled, **({"autograd": "derive"} if derived else {}))
    for way in WAYS.values():
        np.testing.assert_array_equal(way(op), way(kernel))


def test_a_kernel_on_Tensors_finds_it_too():
    def function(x: oplib.Tensor) -> oplib.Tensor:
        return oplib.Tensor.from_array(KERNELS["psum"](x.array))

    op = oplib.library.custom_op(function)
    for way in WAYS.values():
        np.testing.assert_array_equal(way(op), way(KERNELS["psum"]))


def test_a_formula_finds_it_where_the_kernel_does_not_use_it():
    def double(x: jax.Array) -> jax.Array:
        return x * 2

    op = oplib.library.custom_op(double)
    op.register_autograd(lambda ctx, g: jax.lax.psum(g, "i"))
    control = jax.custom_vjp(double)
    control.defvjp(lambda x: (double(x), None), lambda _, g: (jax.lax.psum(g, "i"),))
    for way in (
        lambda f: map_unmapped(jax.grad(f))(2.0),
        lambda f: map_unmapped(jax.jit(jax.grad(f)))(2.0),
        lambda f: map_unmapped(jax.grad(jax.checkpoint(f)))(2.0),
        lambda f: map_unmapped(lambda x: jax.vjp(f, x)[1](1.0)[0])(2.0),
    ):
        np.testing.assert_array_equal(way(op), way(control))
