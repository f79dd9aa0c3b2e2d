"""Loops, branches and scans carry the rules."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.library.matrix.marked import COS, COUNT, ONES, SIN, Marked, W, X, by_both

# Each is the sum over the elements of w * sin(x), computed by the control flow in its name.
LOOPS: dict[str, Any] = {
    "scan": lambda op: lambda x, w: lax.scan(lambda c, v: (c + op(v, w), None), 0.0, x)[0],
    "unrolled scan": lambda op: lambda x, w: lax.scan(lambda c, v: (c + op(v, w), None), 0.0, x, unroll=2)[0],
    "reverse scan": lambda op: lambda x, w: lax.scan(lambda c, v: (c, op(v, w)), w, x, reverse=True)[1].sum(),
    "scan of a checkpoint": lambda op: (
        lambda x, w: lax.scan(jax.checkpoint(lambda c, v: (c + op(v, w), None)), 0.0, x)[0]
    ),
    "map": lambda op: lambda x, w: lax.map(lambda v: op(v, w), x).sum(),
    "fori_loop": lambda op: lambda x, w: lax.fori_loop(0, COUNT, lambda i, c: c + op(x[i], w), 0.0),
    "cond": lambda op: lambda x, w: lax.cond(x[0] > 0, op, lambda v, w: v * w, x, w).sum(),
    "switch": lambda op: lambda x, w: lax.switch(1, [lambda v, w: v, op, lambda v, w: v], x, w).sum(),
    "associative_scan": lambda op: lambda x, w: lax.associative_scan(jnp.add, op(x, w))[-1],
    "associative_scan of the op": lambda op: (
        lambda x, w: lax.associative_scan(
            lambda a, b: (a[0] + b[0], b[1]), (jax.vmap(op, (0, None))(x, w), x)
        )[0][-1]
    ),
}


def while_loop(op: Any) -> Any:
    """Sums in a loop whose length JAX does not know, and which therefore has no reverse mode."""

    def run(x: Any, w: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, state[1] + op(x[state[0]], w)

        return lax.while_loop(lambda state: state[0] < COUNT, step, (0, jnp.float32(0)))[1]

    return run


def run_both_modes(f: Any) -> Any:
    """Returns the value, the gradients and a tangent."""
    return f(X, W), by_both(f)(X, W), jax.jvp(f, (X, W), (ONES, W))[1]


CELLS: dict[str, Any] = {name: lambda op, loop=loop: run_both_modes(loop(op)) for name, loop in LOOPS.items()}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", LOOPS)
def test_the_value_and_both_modes_through_it(name: str, marked: Marked) -> None:
    value, (by_x, by_w), tangent = marked.find(CELLS, name)
    np.testing.assert_allclose(value, (W * SIN).sum(), rtol=1e-5)
    np.testing.assert_allclose(by_x, marked.reverse * W * COS, rtol=1e-5)
    np.testing.assert_allclose(by_w, marked.reverse * SIN.sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * (W * (COS + SIN)).sum(), rtol=1e-5)


def test_a_while_loop_has_values_and_tangents(marked: Marked) -> None:
    value, tangent = jax.jit(lambda *at: jax.jvp(while_loop(marked.op), at[:2], at[2:]))(X, W, ONES, W)
    np.testing.assert_allclose(value, (W * SIN).sum(), rtol=1e-5)
    np.testing.assert_allclose(tangent, marked.forward * (W * (COS + SIN)).sum(), rtol=1e-5)


def test_an_op_as_the_step_of_an_associative_scan_keeps_its_rules(marked: Marked) -> None:
    """The scan batches, slices and nests the op; its value is w * sin of a running sum."""
    loop = lambda x: lax.associative_scan(lambda a, b: marked.op(a + b, W), x)[1]  # noqa: E731
    plain = lambda x: lax.associative_scan(lambda a, b: W * jnp.sin(a + b), x)[1]  # noqa: E731
    (mine, grads), (its, true_grads) = (jax.jit(jax.value_and_grad(f))(X[:2]) for f in (loop, plain))
    np.testing.assert_allclose(mine, its, rtol=1e-5)
    np.testing.assert_allclose(grads, marked.reverse * true_grads, rtol=1e-5)


def test_a_loop_inside_vmap_and_a_vmap_inside_a_loop_agree(marked: Marked) -> None:
    rows = jnp.stack([X, 2 * X])
    inside = jax.vmap(LOOPS["scan"](marked.op), (0, None))
    outside = lambda x, w: lax.scan(  # noqa: E731
        lambda c, v: (c + jax.vmap(marked.op, (0, None))(v, w), None), jnp.zeros(2), x.T
    )[0]
    for run in (inside, outside):
        np.testing.assert_allclose(run(rows, W), (W * np.sin(rows)).sum(1), rtol=1e-5)
        grads = jax.jit(jax.grad(lambda x, run=run: run(x, W).sum()))(rows)
        np.testing.assert_allclose(grads, marked.reverse * W * np.cos(rows), rtol=1e-5)
