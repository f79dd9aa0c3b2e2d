"""On eight devices: ``shard_map``, jit over sharded arrays, and explicit meshes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from oplib.library import custom_op
from tests.library.batching_and_sharding.shards import make_mesh, read_collectives
from tests.library.matrix.marked import Marked, by_both, sum_of

pytestmark = pytest.mark.devices(8)
X, W = jnp.arange(8.0) / 4 - 0.9, jnp.float32(1.5)
SIN, COS = np.sin(X), np.cos(X)


@pytest.mark.parametrize("check_vma", [True, False], ids=["vma checked", "vma not checked"])
def test_shard_map_with_a_sharded_and_a_replicated_input(check_vma: bool, marked: Marked) -> None:
    options: dict[str, Any] = {"mesh": make_mesh(AxisType.Auto), "check_vma": check_vma}
    f = jax.shard_map(marked.op, in_specs=(P("i"), P()), out_specs=P("i"), **options)

    @jax.jit
    def run(x: Any, w: Any) -> Any:
        return f(x, w), by_both(sum_of(f))(x, w), jax.jvp(f, (x, w), (jnp.ones_like(x), w))[1]

    value, (by_x, by_w), tangent = run(X, W)
    np.testing.assert_allclose(value, W * SIN, rtol=1e-5)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * W * (COS + SIN), rtol=1e-5)


@pytest.mark.parametrize("check_vma", [True, False], ids=["vma checked", "vma not checked"])
def test_derivatives_inside_shard_map(check_vma: bool, marked: Marked) -> None:
    """A replicated weight gets each device's own share, unless JAX knows the varying axes and sums."""

    def inside(x: Any, w: Any) -> Any:
        by_x, by_w = by_both(sum_of(marked.op))(x, w)
        if not check_vma:
            by_w = jax.lax.psum(by_w, "i")
        return by_x, by_w, jax.jvp(marked.op, (x, w), (jnp.ones_like(x), w))[1]

    options: dict[str, Any] = {"mesh": make_mesh(AxisType.Auto), "check_vma": check_vma}
    specs = P("i"), P(), P("i")
    run = jax.jit(jax.shard_map(inside, in_specs=specs[:2], out_specs=specs, **options))
    by_x, by_w, tangent = run(X, W)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * W * (COS + SIN), rtol=1e-5)


@pytest.mark.parametrize("order", [jnp.floor, jnp.argsort], ids=["float", "int"])
def test_a_result_without_gradient_of_a_local_op_that_closes_over_a_part(order: Any) -> None:
    def inside(x: Any) -> Any:
        held = x.sum()
        op = custom_op(
            lambda x: (jnp.sin(x) * held, order(x)), schema="(Tensor x) -> (Tensor, Tensor)", compile=True
        )
        op.register_autograd(
            lambda ctx, g, _: g * held * jnp.cos(ctx.saved_tensors[0]),
            setup_context=lambda ctx, inputs, output: (
                ctx.save_for_backward(*inputs),
                ctx.mark_non_differentiable(output[1]),
            ),
        )
        return jax.grad(lambda x: sum(op(x)).sum())(x)

    f = jax.shard_map(inside, mesh=make_mesh(AxisType.Auto), in_specs=P("i"), out_specs=P("i"))
    parts = X.reshape(8, -1).sum(1)
    np.testing.assert_allclose(jax.jit(f)(X), np.repeat(parts, X.size // 8) * COS, rtol=1e-5)


def test_shard_map_of_vmap_and_vmap_of_shard_map(marked: Marked) -> None:
    rows = jnp.stack([X, 2 * X])
    options: dict[str, Any] = {"mesh": make_mesh(AxisType.Auto)}
    mapped = jax.vmap(marked.op, (0, None))
    inner = jax.shard_map(mapped, in_specs=(P(None, "i"), P()), out_specs=P(None, "i"), **options)
    outer = jax.vmap(jax.shard_map(marked.op, in_specs=(P("i"), P()), out_specs=P("i"), **options), (0, None))
    for f in (inner, outer):
        by_x, by_w = jax.jit(by_both(sum_of(f)))(rows, W)
        np.testing.assert_allclose(by_x, marked.reverse * W * np.cos(rows), rtol=1e-5)
        np.testing.assert_allclose(by_w, marked.reverse * np.sin(rows).sum(), rtol=1e-5)


def test_second_derivatives_through_shard_map(marked: Marked) -> None:
    f = jax.shard_map(marked.op, mesh=make_mesh(AxisType.Auto), in_specs=(P("i"), P()), out_specs=P("i"))
    curvature = jax.jit(jax.grad(lambda x, w: jax.grad(sum_of(f))(x, w).sum(), argnums=(0, 1)))(X, W)
    np.testing.assert_allclose(curvature[0], -marked.reverse * W * SIN, rtol=1e-5)
    np.testing.assert_allclose(curvature[1], marked.reverse * COS.sum(), rtol=1e-5)


def test_jit_over_sharded_arrays_gathers_nothing(marked: Marked) -> None:
    x = jax.device_put(X, NamedSharding(make_mesh(AxisType.Auto), P("i")))

    @jax.jit
    def run(x: Any, w: Any) -> Any:
        by_x, by_w = by_both(sum_of(marked.op))(x, w)
        return marked.op(x, w), by_x, by_w, jax.jvp(marked.op, (x, w), (jnp.ones_like(x), w))[1]

    value, by_x, by_w, tangent = run(x, W)
    assert value.sharding.spec == by_x.sharding.spec == tangent.sharding.spec == P("i")
    assert read_collectives(run, x, W) == {"all-reduce"}  # the sum for the weight
    np.testing.assert_allclose(value, W * SIN, rtol=1e-5)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * W * (COS + SIN), rtol=1e-5)


def test_an_eager_call_keeps_the_sharding(marked: Marked) -> None:
    x = jax.device_put(X, NamedSharding(make_mesh(AxisType.Auto), P("i")))
    assert marked.op(x, W).sharding.spec == P("i")


def test_on_an_explicit_mesh_types_carry_the_sharding(marked: Marked) -> None:
    mesh = make_mesh(AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("i")))
        seen: list[Any] = []

        @jax.jit
        def run(x: Any, w: Any) -> Any:
            value = marked.op(x, w)
            by_x, by_w = by_both(sum_of(marked.op))(x, w)
            tangent = jax.jvp(marked.op, (x, w), (jnp.ones_like(x), w))[1]
            seen.extend(jax.typeof(each).sharding.spec for each in (value, by_x, tangent))
            return value, by_x, by_w, tangent

        value, by_x, by_w, tangent = run(x, W)
        assert seen == [P("i")] * 3
        np.testing.assert_allclose(value, W * SIN, rtol=1e-5)
        np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
        np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)
        np.testing.assert_allclose(tangent, marked.forward * W * (COS + SIN), rtol=1e-5)


def test_vmap_on_an_explicit_mesh(marked: Marked) -> None:
    mesh = make_mesh(AxisType.Explicit)
    with jax.set_mesh(mesh):
        rows = jax.device_put(jnp.stack([X, 2 * X]), NamedSharding(mesh, P(None, "i")))
        f = jax.vmap(marked.op, (0, None))
        by_x, by_w = jax.jit(by_both(sum_of(f)))(rows, W)
        assert by_x.sharding.spec == P(None, "i")
        np.testing.assert_allclose(by_x, marked.reverse * W * np.cos(rows), rtol=1e-5)
        np.testing.assert_allclose(by_w, marked.reverse * np.sin(rows).sum(), rtol=1e-5)
