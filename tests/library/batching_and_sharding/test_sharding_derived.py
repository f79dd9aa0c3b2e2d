"""JAX's own derivative of an op whose parts are summed, on an explicit mesh."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from oplib.library import CustomOpDef, custom_op
from oplib.tensor import Tensor

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
Y = np.linspace(0.5, 2, 24, dtype=np.float32).reshape(8, 3)


def product(x: Any, y: Any) -> Any:
    return jnp.tanh(x) @ y


def make_op() -> CustomOpDef:
    @custom_op("derived::product")
    def op(x: jax.Array, y: jax.Array) -> jax.Array:
        return product(x, y)

    op.register_sharding("i j, j k -> i k reduction={j}")
    op.register_autograd("derive")
    return op


def square(function: Any) -> Any:
    return lambda x, y: (function(x, y) ** 2).sum()


def cut(mesh: Any) -> tuple[jax.Array, jax.Array]:
    """Partitions both along the summed axis, for which JAX does not know the sharding of a whole result."""
    return (
        jax.device_put(X, NamedSharding(mesh, P(None, "i"))),
        jax.device_put(Y, NamedSharding(mesh, P("i", None))),
    )


@pytest.mark.devices(8)
def test_both_modes_and_the_second_order_are_those_of_the_whole() -> None:
    op, mesh = make_op(), jax.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,))

    def run(function: Any) -> Any:
        def all_of(x: Any, y: Any) -> Any:
            by_x = jax.grad(square(function))
            grads = jax.grad(square(function), (0, 1))(x, y)
            tangent = jax.jvp(lambda x: function(x, y), (x,), (x,))[1]
            return *grads, tangent, jax.grad(lambda x: (by_x(x, y) ** 2).sum())(x)

        return jax.jit(all_of)

    with jax.set_mesh(mesh):
        found = run(op)(*cut(mesh))
    for got, due in zip(found, run(product)(X, Y), strict=True):
        np.testing.assert_allclose(got, due, rtol=1e-3, atol=1e-4)
    assert found[0].sharding.spec == P(None, "i")


@pytest.mark.devices(8)
def test_the_tape_takes_the_same_derivative() -> None:
    op, mesh = make_op(), jax.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x, y = (Tensor.from_array(array, requires_grad=True) for array in cut(mesh))
        op(x, y).square().sum().backward()
    for tensor, due in zip((x, y), jax.grad(square(product), (0, 1))(X, Y), strict=True):
        np.testing.assert_allclose(tensor.grad.array, due, rtol=1e-4, atol=1e-5)
