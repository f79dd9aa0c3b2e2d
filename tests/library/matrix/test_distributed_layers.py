"""Layers of distributed programs as ops with formulas by hand, against the plain functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib.library import custom_op
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = [pytest.mark.devices(4), pytest.mark.spec("D.31")]
COUNT, WIDTH = 4, 8
X = jnp.sin(jnp.arange(32.0)).reshape(8, 4)
SUMS = pytest.mark.parametrize("sums", [False, True], ids=["part of one device", "sum in the formula"])


def differentiate(function: Any, specs: Any, *arrays: Any) -> Any:
    """Returns gradients by all arrays; each has the layout of its array."""
    positions = tuple(range(len(arrays)))
    spread = jax.shard_map(
        jax.grad(lambda *values: jnp.sin(function(*values)), positions),
        mesh=make_mesh(shape=(COUNT,)),
        in_specs=specs,
        out_specs=specs,
    )
    return jax.jit(spread)(*arrays)


def make_op(kernel: Any, pull: Callable[..., Any], schema: str) -> Any:
    op = custom_op(kernel, schema=schema, compile=True)
    op.register_autograd(
        lambda ctx, g: pull(*ctx.saved_tensors, g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return op


def assert_close(found: Any, due: Any) -> None:
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6), found, due)


@SUMS
def test_cross_entropy_over_parts_of_the_vocabulary(sums: bool) -> None:
    """The hidden states are shared, and each device has the weights of some words."""
    words = jnp.array([0, 3, 7, 2, 5, 1, 6, 4])

    def score(x: Any, w: Any) -> tuple[Any, Any, Any]:
        scores = x @ w
        top = lax.pmax(lax.stop_gradient(scores).max(-1), "i")[:, None]
        shares = jnp.exp(scores - top)
        is_own = words[:, None] == lax.axis_index("i") * w.shape[1] + jnp.arange(w.shape[1])
        return shares / lax.psum(shares.sum(-1), "i")[:, None], is_own, scores - top

    def kernel(x: Any, w: Any) -> Any:
        _, is_own, scores = score(x, w)
        total = lax.psum(jnp.exp(scores).sum(-1), "i")
        return (jnp.log(total) - lax.psum(jnp.where(is_own, scores, 0).sum(-1), "i")).mean()

    def pull(x: Any, w: Any, g: Any) -> Any:
        shares, is_own, _ = score(x, w)
        error = g * (shares - is_own) / len(words)
        by_x = error @ w.T
        return lax.psum(by_x, "i") if sums else by_x, x.T @ error

    w = jnp.cos(jnp.arange(4.0 * WIDTH)).reshape(4, WIDTH)
    specs = P(), P(None, "i")
    op = make_op(kernel, pull, "(Tensor x, Tensor w) -> Tensor")
    assert_close(differentiate(op, specs, X, w), differentiate(kernel, specs, X, w))


@SUMS
def test_batch_norm_over_all_devices(sums: bool) -> None:
    def measure(x: Any) -> tuple[Any, Any]:
        mean = lax.pmean(x.mean(0), "i")
        scale = lax.rsqrt(lax.pmean(((x - mean) ** 2).mean(0), "i") + 1e-3)
        return (x - mean) * scale, scale

    def kernel(x: Any, gain: Any, bias: Any) -> Any:
        return gain * measure(x)[0] + bias

    def pull(x: Any, gain: Any, bias: Any, g: Any) -> Any:
        normal, scale = measure(x)
        own = g * gain
        centre = own - lax.pmean(own.mean(0), "i") - normal * lax.pmean((own * normal).mean(0), "i")
        rest = (g * normal).sum(0), g.sum(0)
        return scale * centre, *(lax.psum(each, "i") if sums else each for each in rest)

    op = make_op(kernel, pull, "(Tensor x, Tensor gain, Tensor bias) -> Tensor")
    found, due = (
        differentiate(
            lambda *values, f=f: lax.psum((f(*values) ** 3).sum(), "i"),
            (P("i"), P(), P()),
            X,
            jnp.arange(1.0, 5.0),
            jnp.ones(4),
        )
        for f in (op, kernel)
    )
    assert_close(found, due)


@SUMS
def test_a_vector_of_length_one_with_a_shared_scale(sums: bool) -> None:
    """The gradient of x needs a sum over the devices. One of the two formulas sums that of the scale too."""

    def kernel(x: Any, scale: Any) -> Any:
        return x * scale / jnp.sqrt(lax.psum((x * x).sum(), "i"))

    def pull(x: Any, scale: Any, g: Any) -> Any:
        length = jnp.sqrt(lax.psum((x * x).sum(), "i"))
        along = (g * x).sum()
        total = lax.psum(along, "i")
        return scale * (g / length - x * total / length**3), (total if sums else along) / length

    op = make_op(kernel, pull, "(Tensor x, Tensor scale) -> Tensor")
    found, due = (
        differentiate(
            lambda *values, f=f: lax.psum((f(*values) ** 3).sum(), "i"),
            (P("i"), P()),
            X.ravel(),
            jnp.float32(1.3),
        )
        for f in (op, kernel)
    )
    assert_close(found, due)
