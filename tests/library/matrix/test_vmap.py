"""The op keeps its rules under vmap, at any nesting and for any mapped arguments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.library.matrix.marked import COS, SIN, Marked, W, X, by_both, sum_of

ROWS = jnp.stack([X, 2 * X, X - 1])
WEIGHTS = jnp.array([1.5, -0.5, 2.0])
RSIN, RCOS = np.sin(ROWS), np.cos(ROWS)

# Each computes w * sin(x) for all rows and one w, from ROWS and W.
ONE_WEIGHT: dict[str, Any] = {
    "None axis": lambda op: jax.vmap(op, (0, None)),
    "moved axes": lambda op: lambda x, w: jax.vmap(op, (1, None), out_axes=1)(x.T, w).T,
    "last axis by its negative": lambda op: lambda x, w: jax.vmap(op, (-1, None), out_axes=-1)(x.T, w).T,
    "nested": lambda op: jax.vmap(jax.vmap(op, (0, None)), (0, None)),
    "nested, crosswise": lambda op: jax.vmap(jax.vmap(op, (0, None)), (1, None), out_axes=1),
    "named axis": lambda op: jax.vmap(op, (0, None), axis_name="rows"),
    "of jit": lambda op: jax.vmap(jax.jit(op), (0, None)),
    "of checkpoint": lambda op: jax.vmap(jax.checkpoint(op), (0, None)),
    "nothing batched": lambda op: lambda x, w: jax.vmap(lambda _: op(x, w))(jnp.zeros(2))[1],
}


def run_both_modes(f: Any) -> Any:
    """Returns the value, the gradients and a tangent."""
    return f(ROWS, W), by_both(sum_of(f))(ROWS, W), jax.jvp(f, (ROWS, W), (jnp.ones_like(ROWS), W))[1]


CELLS: dict[str, Any] = {
    name: lambda op, mapped=mapped: run_both_modes(mapped(op)) for name, mapped in ONE_WEIGHT.items()
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", ONE_WEIGHT)
def test_the_value_and_both_modes_through_it(name: str, marked: Marked) -> None:
    value, (by_x, by_w), tangent = marked.find(CELLS, name)
    np.testing.assert_allclose(value, W * RSIN, rtol=1e-5)
    np.testing.assert_allclose(by_x, marked.reverse * W * RCOS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * RSIN.sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * W * (RCOS + RSIN), rtol=1e-5)


def test_it_maps_without_jit_too(marked: Marked) -> None:
    np.testing.assert_allclose(jax.vmap(marked.op)(ROWS, WEIGHTS), WEIGHTS[:, None] * RSIN, rtol=1e-5)


# Each computes the gradients by every row and by its weight, from ROWS and WEIGHTS.
PER_ROW: dict[str, Any] = {
    "vmap of grad": lambda op: jax.vmap(by_both(sum_of(op))),
    "grad of vmap": lambda op: by_both(sum_of(jax.vmap(op))),
    "jit of vmap of jit of grad": lambda op: jax.jit(jax.vmap(jax.jit(by_both(sum_of(op))))),
    "vmap of vjp": lambda op: jax.vmap(lambda x, w: jax.vjp(op, x, w)[1](jnp.ones_like(x))),
    "vmapped cotangents": lambda op: (
        lambda x, w: [
            grad.sum(0)
            for grad in jax.vmap(jax.vjp(jax.vmap(op), x, w)[1])(jnp.eye(x.size).reshape(-1, *x.shape))
        ]
    ),
}


BACKWARD: dict[str, Any] = {name: lambda op, run=run: run(op)(ROWS, WEIGHTS) for name, run in PER_ROW.items()}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", PER_ROW)
def test_vmap_inside_and_outside_reverse_mode(name: str, marked: Marked) -> None:
    by_x, by_w = marked.find(BACKWARD, name)
    np.testing.assert_allclose(by_x, marked.reverse * WEIGHTS[:, None] * RCOS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * RSIN.sum(1), rtol=1e-5)


TANGENTS: dict[str, Any] = {
    "vmap of jvp": lambda op: jax.vmap(lambda x, w: jax.jvp(op, (x, w), (jnp.ones_like(x), w))[1]),
    "jvp of vmap": lambda op: lambda x, w: jax.jvp(jax.vmap(op), (x, w), (jnp.ones_like(x), w))[1],
    "vmapped tangents": lambda op: (
        lambda x, w: jax.vmap(lambda dx, dw: jax.jvp(jax.vmap(op), (x, w), (dx, dw))[1])(
            jnp.ones((2, *x.shape)), jnp.stack([w, w])
        )[1]
    ),
}


FORWARD: dict[str, Any] = {name: lambda op, run=run: run(op)(ROWS, WEIGHTS) for name, run in TANGENTS.items()}


@pytest.mark.parametrize("name", TANGENTS)
def test_vmap_inside_and_outside_forward_mode(name: str, marked: Marked) -> None:
    due = marked.forward * WEIGHTS[:, None] * (RCOS + RSIN)
    np.testing.assert_allclose(marked.find(FORWARD, name), due, rtol=1e-5)


def test_a_tangent_may_be_shared_by_the_batch(marked: Marked) -> None:
    push = jax.vmap(lambda x, dx: jax.jvp(lambda x: marked.op(x, W), (x,), (dx,))[1], (0, None))
    np.testing.assert_allclose(push(ROWS, jnp.ones(4)), marked.forward * W * RCOS, rtol=1e-5)


def test_second_derivatives_of_every_row(marked: Marked) -> None:
    hessians = jax.jit(jax.vmap(jax.hessian(sum_of(marked.op))))(ROWS, WEIGHTS)
    due = np.stack([np.diag(row) for row in -marked.reverse * WEIGHTS[:, None] * RSIN])
    np.testing.assert_allclose(hessians, due, rtol=1e-5, atol=1e-6)


def test_a_derivative_between_two_vmaps(marked: Marked) -> None:
    inner = lambda x: jax.grad(lambda w: jax.vmap(marked.op, (0, None))(x, w).sum())(W)  # noqa: E731
    np.testing.assert_allclose(jax.vmap(inner)(ROWS), marked.reverse * RSIN.sum(1), rtol=1e-5)


def test_an_empty_batch_has_empty_derivatives(marked: Marked) -> None:
    empty = ROWS[:0]
    grads = jax.vmap(jax.grad(sum_of(marked.op)), (0, None))(empty, W)
    assert grads.shape == empty.shape


def test_per_element_maps_see_scalars(marked: Marked) -> None:
    by_x, by_w = jax.vmap(by_both(marked.op), (0, None))(X, W)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN, rtol=1e-5)
