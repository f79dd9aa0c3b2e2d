"""Checks of an op's results: in both worlds, under JAX's transformations, and against its schema."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

from oplib.library.schema.parser import parse_schema
from oplib.tensor import Tensor
from tests.builtin.samples.drawing import Sample

from .calls import Call, assert_close, assert_near, draw_weights, to_vector
from .check import Check, accepts_complex, always, is_all_real, is_smooth
from .differences import WIDE, differ


def check_results(call: Call) -> None:
    """Checks that arrays and Tensors give the kernel's results, in dtypes that are never weak."""
    arrays = list(map(jnp.asarray, call.arrays))
    expected = jax.jit(call.run_kernel)(*arrays)
    in_arrays, in_tensors = call.run(*arrays), call.run(*map(Tensor.from_array, arrays))
    assert_close(in_arrays, expected)
    assert_close([tensor.array for tensor in in_tensors], expected)
    assert [value.dtype for value in in_arrays] == [value.dtype for value in in_tensors]
    assert not any(value.weak_type for value in (*in_arrays, *(tensor.array for tensor in in_tensors)))


def check_shapes(call: Call) -> None:
    """Checks that ``jax.eval_shape`` predicts the results."""
    arrays = list(map(jnp.asarray, call.arrays))
    promised = jax.eval_shape(call.run, *arrays)
    results = call.run(*arrays)
    assert [(value.shape, value.dtype) for value in promised] == [
        (value.shape, value.dtype) for value in results
    ]


def check_schema(call: Call) -> None:
    schema = call.op.record.schema
    assert parse_schema(str(schema)) == schema


def make_loss(call: Call) -> Any:
    def loss(vector: Any) -> tuple[Any, Any]:
        results = call.run(*call.with_floats(call.split(vector)))
        floating = to_vector([value for value in results if jnp.issubdtype(value.dtype, jnp.inexact)])
        return jnp.sum(floating * draw_weights(floating.size)), floating

    return jax.value_and_grad(loss, has_aux=True)


def check_jit(call: Call) -> None:
    """Checks the values, and JAX's gradient, of the op in a compiled function."""
    (_, value), gradient = jax.jit(make_loss(call))(jnp.asarray(call.point))
    assert_near(value, differ(call).value, 1e-12)
    assert_near(gradient, differ(call).gradient, 1e-6)


def check_vmap(call: Call) -> None:
    """Checks a batch of three points: each has its own values and its own gradient."""
    aside = WIDE * call.direction
    points = np.stack([call.point - aside, call.point, call.point + aside])
    (_, values), gradients = jax.jit(jax.vmap(make_loss(call)))(jnp.asarray(points))
    expected = differ(call)
    for found, wanted in zip(values, (expected.beside[0], expected.value, expected.beside[1]), strict=True):
        assert_near(found, wanted, 1e-11)
    assert_near(gradients[1], expected.gradient, 1e-6)
    assert_near((gradients[2] - gradients[0]) / (2 * WIDE), expected.hessian, 1e-4)


def check_shard_map(call: Call) -> None:
    """Checks values and gradients where two devices have a first array each, and share the others."""

    def loss(floats: list[Any]) -> tuple[Any, Any]:
        results = call.run(*call.with_floats(floats))
        floating = to_vector([value for value in results if jnp.issubdtype(value.dtype, jnp.inexact)])
        return lax.psum(jnp.sum(floating * draw_weights(floating.size)), "i"), floating[None]

    def inside(own: Any, *shared: Any) -> Any:
        (first, *rest), values = jax.grad(loss, has_aux=True)([own[0], *shared])
        return values, first[None], rest

    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    floats = list(map(jnp.asarray, call.floats))
    specs = P("i"), *(P() for _ in floats[1:])
    spread = jax.shard_map(inside, mesh=mesh, in_specs=specs, out_specs=(P("i"), P("i"), P()))
    values, own, shared = jax.jit(spread)(jnp.stack([floats[0]] * 2), *floats[1:])
    due = call.split(differ(call).gradient)
    for device in range(2):
        assert_near(values[device], differ(call).value, 1e-12)
        assert_near(own[device], due[0], 1e-6)
    assert_near(to_vector(shared), 2 * to_vector(due[1:]), 1e-6)


def check_vmap_of_values(call: Call) -> None:
    """Checks an op without a gradient over a batch of all its arrays."""
    arrays = [jnp.stack([jnp.asarray(array)] * 2) for array in call.arrays]
    expected = call.run(*map(jnp.asarray, call.arrays))
    for place in range(2):
        assert_close([value[place] for value in jax.vmap(call.run)(*arrays)], expected)


def is_smooth_and_real(name: str, sample: Sample) -> bool:
    return is_smooth(name, sample) and is_all_real(sample)


def is_not_smooth(name: str, sample: Any) -> bool:
    return not is_smooth(name, sample)


RESULTS = (
    Check("results", check_results, always, share=1.0),
    Check("complex results", check_results, accepts_complex, share=0.1, is_complex=True),
    Check("shapes and dtypes", check_shapes, always, share=0.1),
    Check("schema", check_schema, always, share=1.0, once=True),
    Check("jit", check_jit, is_smooth, share=0.1),
    Check("vmap", check_vmap, is_smooth, share=0.15),
    Check("shard_map", check_shard_map, is_smooth_and_real, share=0.03),
    Check("vmap of values", check_vmap_of_values, is_not_smooth, share=0.1),
)
