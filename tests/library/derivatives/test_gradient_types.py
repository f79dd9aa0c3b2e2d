"""Which gradients a formula means inside of ``shard_map``: one reading is used, and two are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib.errors import AutogradError
from oplib.library import custom_op
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("D.31")]
X, W = jnp.arange(1.0, 9.0), jnp.float32(2.0)
SHARED, MIXED = P(), (P("i"), P())


def spread(function: Callable[..., Any], out_specs: Any = SHARED) -> Any:
    return jax.jit(jax.shard_map(function, mesh=make_mesh(), in_specs=MIXED, out_specs=out_specs))


def save_operands(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


READINGS: dict[str, tuple[Any, Any, Any, str]] = {
    "the kernel sums a shared weight": (
        lambda x, w: x + lax.psum(w, "i"),
        lambda x, w, g: (g, lax.psum(g.sum(), "i")),
        lambda x, w, g: (g, lax.pcast(lax.psum(g.sum(), "i"), "i", to="varying")),
        "sums the cotangent as often",
    ),
    "the kernel gathers a shared weight": (
        lambda x, w: x * lax.all_gather(w, "i").sum(),
        lambda x, w, g: (8 * w * g, lax.psum((g * x).sum(), "i")),
        lambda x, w, g: (8 * w * g, lax.psum_scatter(jnp.full(8, (g * x).sum()), "i")),
        "sums the cotangent as often",
    ),
    "the kernel sums what the weight multiplies": (
        lambda x, w: w * lax.psum(x.sum(), "i"),
        lambda x, w, g: (g * w * jnp.ones_like(x), (g * x).sum()),
        lambda x, w, g: (g * w * jnp.ones_like(x), g * lax.psum(x.sum(), "i")),
        "computed alike by all devices",
    ),
    "the formula sums a residual": (
        lambda x, w: lax.psum((x * w).sum(), "i"),
        lambda x, w, g: (g * w * jnp.ones_like(x), g * lax.psum(x.sum(), "i")),
        lambda x, w, g: (g * w * jnp.ones_like(x), (g * x).sum()),
        "multiplies its cotangent by none of these",
    ),
    "the kernel chooses by its own values": (
        lambda x, w: lax.psum(jnp.where(x > 3, w, x).sum(), "i"),
        lambda x, w, g: (jnp.where(x > 3, 0, g), g * lax.psum((x > 3).sum(), "i")),
        lambda x, w, g: (jnp.where(x > 3, 0, g), jnp.where(x > 3, g, 0).sum()),
        "multiplies its cotangent by none of these",
    ),
}
"""A kernel, a formula with two readings, a formula with one, and the reason in the error about the first."""


@pytest.mark.parametrize("sums", [True, False], ids=["the formula sums", "the formula does not sum"])
def test_a_result_of_two_kinds_needs_a_formula_that_sums(sums: bool) -> None:
    """No types tell which part of the cotangent belongs to all devices."""

    def pull(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        part = (g * x).sum()
        return g * w * jnp.ones_like(x), 3 * g + (lax.psum(part, "i") if sums else part)

    op = custom_op(
        lambda x, w: 3 * w + lax.psum((x * w).sum(), "i"),
        schema="(Tensor x, Tensor w) -> Tensor",
        compile=True,
    )
    op.register_autograd(pull, setup_context=save_operands)
    run = spread(lambda x, w: jax.grad(lambda x, w: op(x, w), (0, 1))(x, w), MIXED)
    if sums:
        by_x, by_w = run(X, W)
        np.testing.assert_array_equal(by_x, jnp.full(8, W))
        assert by_w == 3 + X.sum()
    else:
        with pytest.raises(
            AutogradError, match="does not determine the gradient of argument 'w' in shard_map"
        ):
            run(X, W)


@pytest.mark.parametrize("name", READINGS)
def test_a_formula_with_two_readings_is_refused_and_the_cure_is_right(name: str) -> None:
    """The expected gradient is JAX's own derivative of the kernel."""
    kernel, doubtful, cured, reason = READINGS[name]

    def differentiate(pull: Any) -> Any:
        if pull is None:
            return spread(jax.grad(lambda x, w: jnp.sin(kernel(x, w)).sum(), 1))
        op: Any = custom_op(kernel, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
        op.register_autograd(lambda ctx, g: pull(*ctx.saved_tensors, g), setup_context=save_operands)
        return spread(jax.grad(lambda x, w: jnp.sin(op(x, w)).sum(), 1))

    with pytest.raises(AutogradError, match=f"argument 'w' in shard_map. Result 0 .*{reason}"):
        differentiate(doubtful)(X, W)
    np.testing.assert_allclose(differentiate(cured)(X, W), differentiate(None)(X, W), rtol=1e-5)


def test_a_formula_that_is_the_derivative_of_jax_has_one_reading() -> None:
    def kernel(x: Any, w: Any) -> Any:
        return x * w + lax.psum(w, "i")

    op = custom_op(kernel, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
    op.register_autograd(
        lambda ctx, g: jax.vjp(kernel, *ctx.saved_tensors)[1](g), setup_context=save_operands
    )
    found = spread(lambda x, w: jax.grad(lambda w: op(x, w).sum())(w))(X, W)
    assert found == X.sum() + 8 * 8


def test_a_gradient_that_does_not_depend_on_the_cotangent_has_one_reading() -> None:
    def kernel(x: Any, w: Any) -> Any:
        return x * jnp.round(w)

    op = custom_op(kernel, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
    op.register_autograd(
        lambda ctx, g: (g * jnp.round(ctx.saved_tensors[1]), jnp.zeros_like(ctx.saved_tensors[1])),
        setup_context=save_operands,
    )
    run = [spread(jax.grad(lambda x, w, f=f: f(x, w).sum(), (0, 1)), MIXED)(X, W) for f in (op, kernel)]
    jax.tree.map(np.testing.assert_array_equal, *run)
