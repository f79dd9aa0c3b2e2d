"""A shorter matrix for the other kinds of kernels: on Tensors, in numpy, in plain Python, composite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from oplib.library import CustomOpDef, custom_op, define, impl, ops
from oplib.library.registration.registry import registry
from oplib.tensor import Tensor
from tests.library.matrix.marked import (
    COS,
    FORWARD,
    ONES,
    REVERSE,
    SIN,
    Marked,
    W,
    X,
    by_both,
    pull,
    save_inputs,
    sum_of,
)


def make_eager(rules: str) -> CustomOpDef:
    """An op whose kernel and rules are written for Tensors."""

    @custom_op(f"matrix::eager_{rules}")
    def bend(x: Tensor, w: Tensor) -> Tensor:
        return w * x.sin()

    def pull_tensors(ctx: Any, grad: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return REVERSE * grad * w * x.cos(), REVERSE * (grad * x.sin()).sum()

    def push_tensors(primals: Any, tangents: Any) -> Any:
        (x, w), (dx, dw) = primals, tangents
        tangent = x * 0
        if dx is not None:
            tangent = tangent + dx * w * x.cos()
        if dw is not None:
            tangent = tangent + dw * x.sin()
        return w * x.sin(), FORWARD * tangent

    if "b" in rules:
        bend.register_autograd(pull_tensors, setup_context=save_inputs)
    if "j" in rules:
        bend.register_jvp(push_tensors)
    return bend


def make_host() -> CustomOpDef:
    """An op that runs in numpy, with a formula for JAX."""

    @custom_op("matrix::host")
    def bend(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return (w * np.sin(x)).astype(np.float32)

    bend.register_fake(lambda x, w: x)
    bend.register_autograd(pull, setup_context=save_inputs)
    return bend


def make_plain() -> CustomOpDef:
    """An op that runs as plain Python on arrays."""

    @custom_op("matrix::plain", compile=False)
    def bend(x: jax.Array, w: jax.Array) -> jax.Array:
        return w * jnp.sin(x)

    bend.register_autograd(pull, setup_context=save_inputs)
    return bend


def make_batched() -> CustomOpDef:
    """An op with a batching rule."""

    @custom_op("matrix::batched")
    def bend(x: jax.Array, w: jax.Array) -> jax.Array:
        return w * jnp.sin(x)

    @bend.register_vmap
    def rule(info: Any, in_dims: Any, x: jax.Array, w: jax.Array) -> Any:
        assert in_dims == (0, None)
        return w * jnp.sin(x), 0

    bend.register_autograd(pull, setup_context=save_inputs)
    return bend


def make_composite() -> Any:
    """A composite op, which JAX looks into."""
    define("matrix::composite", "(Tensor x, Tensor w) -> Tensor")
    impl("matrix::composite", "", lambda x, w: w * x.sin())
    return ops.matrix.composite


KINDS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "eager, formula": (lambda: make_eager("b"), REVERSE, REVERSE),
    "eager, jvp": (lambda: make_eager("j"), FORWARD, FORWARD),
    "eager, both": (lambda: make_eager("bj"), REVERSE, FORWARD),
    "host": (make_host, REVERSE, REVERSE),
    "plain Python": (make_plain, REVERSE, REVERSE),
    "batching rule": (make_batched, REVERSE, REVERSE),
    "composite": (make_composite, 1.0, 1.0),
}
ROWS = jnp.stack([X, 2 * X])
# Each op with its factors of reverse and forward mode.
CELLS: dict[str, Any] = {
    "value": lambda op: op(X, W),
    "grad": lambda op: by_both(sum_of(op))(X, W)[0],
    "jvp": lambda op: jax.jvp(op, (X, W), (ONES, W))[1],
    "checkpoint": lambda op: jax.grad(jax.checkpoint(sum_of(op)))(X, W),
    "scan": lambda op: jax.grad(lambda x: lax.scan(lambda c, v: (c + op(v, W), None), 0.0, x)[0])(X),
    "cond": lambda op: jax.grad(lambda x: lax.cond(x[0] > 0, op, lambda v, w: v, x, W).sum())(X),
    "vmap of grad": lambda op: jax.vmap(jax.grad(sum_of(op)), (0, None))(ROWS, W)[0],
    "grad of vmap": lambda op: jax.grad(sum_of(jax.vmap(op, (0, None))))(ROWS, W)[0],
    "forward over reverse": lambda op: jax.jvp(jax.grad(sum_of(op)), (X, W), (ONES, W * 0))[1],
}
DUE: dict[str, Any] = {
    "value": lambda reverse, forward: W * SIN,
    "jvp": lambda reverse, forward: forward * W * (COS + SIN),
    "forward over reverse": lambda reverse, forward: -reverse * W * SIN,
}


@pytest.fixture(scope="module")
def other_kinds() -> Iterator[dict[str, Marked]]:
    before = registry.save()
    yield {kind: Marked(make(), kind, *factors) for kind, (make, *factors) in KINDS.items()}
    registry.restore(before)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_its_rules(kind: str, name: str, other_kinds: dict[str, Marked]) -> None:
    marked = other_kinds[kind]
    due = DUE.get(name, lambda reverse, forward: reverse * W * COS)(marked.reverse, marked.forward)
    np.testing.assert_allclose(marked.find(CELLS, name), due, rtol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "host"])
def test_shapes_may_be_symbolic_where_no_python_runs_later(kind: str, other_kinds: dict[str, Marked]) -> None:
    marked = other_kinds[kind]
    (size,) = export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((size,), "float32"), jax.ShapeDtypeStruct((), "float32")
    exported = export.export(jax.jit(lambda x, w: jax.grad(sum_of(marked.op))(x, w)))(*shapes)
    np.testing.assert_allclose(exported.call(X, W), marked.reverse * W * COS, rtol=1e-5)
