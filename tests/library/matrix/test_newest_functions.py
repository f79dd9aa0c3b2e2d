"""Kernels and rules with functions that JAX's newest version makes primitives of a higher level.

``jnp.searchsorted`` is an example. JAX expands such primitives when a program is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm

import oplib
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry
from tests.library.matrix.marked import REVERSE, run_together

EDGES = jnp.array([0.0, 0.4, 0.6])
X = jnp.array([0.1, 0.5, 0.9])
STEPS = np.array([1.0, 2.0, 3.0], np.float32)  # the number of edges below


def step(x: Any) -> Any:
    return jnp.searchsorted(EDGES, x).astype(x.dtype)


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(step(inputs[0]))


@pytest.fixture(scope="module")
def ops() -> Iterator[dict[str, CustomOpDef]]:
    """``x * step(x)`` with a formula scaled by 7, with such a jvp rule, and with JAX's derivative."""
    before = registry.save()

    def make(name: str) -> CustomOpDef:
        @custom_op(f"newest::{name}")
        def op(x: jax.Array) -> jax.Array:
            return x * step(x)

        return op

    made = {name: make(name) for name in ("formula", "jvp", "derive")}
    made["formula"].register_autograd(
        lambda ctx, grad: REVERSE * grad * ctx.saved_tensors[0], setup_context=keep
    )
    made["jvp"].register_jvp(
        lambda primals, tangents: (primals[0] * step(primals[0]), REVERSE * tangents[0] * step(primals[0]))
    )
    made["derive"].register_autograd("derive")
    yield made
    registry.restore(before)


def total(op: Any) -> Any:
    return lambda x: op(x).sum()


PAIR = jnp.stack([X, X])
VALUES: dict[str, Any] = {
    "jit": lambda op: jax.jit(op)(X),
    "vmap": lambda op: jax.vmap(op)(PAIR)[1],
    "scan": lambda op: jax.lax.scan(lambda count, x: (count, op(x)), 0, PAIR)[1][1],
    "while": lambda op: jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, op(X)), (0, X))[1],
    "cond": lambda op: jax.lax.cond(X[0] > 0, op, lambda x: x, X),
}
GRADIENTS: dict[str, Any] = {
    "grad": lambda op: jax.grad(total(op))(X),
    "jvp": lambda op: jax.jvp(op, (X,), (jnp.ones(3),))[1],
    "linearize": lambda op: jax.linearize(op, X)[1](jnp.ones(3)),
    "checkpoint": lambda op: jax.grad(jax.checkpoint(total(op)))(X),
    "vmap of grad": lambda op: jax.vmap(jax.grad(total(op)))(PAIR)[1],
    "grad of vmap": lambda op: jax.grad(lambda x: jax.vmap(op)(x).sum())(PAIR)[1],
    "grad of scan": lambda op: jax.grad(
        lambda x: jax.lax.scan(lambda c, v: (c + op(v), None), X, x)[0].sum()
    )(PAIR)[1],
    "hessian": lambda op: jax.hessian(total(op))(X).sum(0) + jax.jacfwd(op)(X).sum(0),
}
RULES = ["formula", "jvp", "derive"]
_answers: dict[Any, Any] = {}


def find(cells: dict[str, Any], op: CustomOpDef, rules: str) -> dict[str, Any]:
    key = id(cells), rules
    if key not in _answers:
        _answers[key] = run_together(cells, op)
    return _answers[key]


@pytest.mark.parametrize("rules", RULES)
def test_they_are_lowered_in_every_transformation(rules: str, ops: dict[str, CustomOpDef]) -> None:
    for name, value in find(VALUES, ops[rules], rules).items():
        np.testing.assert_allclose(value, X * STEPS, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("rules", RULES)
def test_they_are_lowered_in_derivatives_of_both_modes(rules: str, ops: dict[str, CustomOpDef]) -> None:
    factor = 1 if rules == "derive" else REVERSE
    for name, value in find(GRADIENTS, ops[rules], rules).items():
        np.testing.assert_allclose(value, factor * STEPS, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("rules", RULES)
def test_they_are_lowered_where_tensors_call(rules: str, ops: dict[str, CustomOpDef]) -> None:
    x = oplib.tensor(np.asarray(X), requires_grad=True)
    (grad,) = oplib.autograd.grad(total(ops[rules])(x), x, create_graph=True)
    np.testing.assert_allclose(grad.array, (1 if rules == "derive" else REVERSE) * STEPS, rtol=1e-6)


def test_they_are_lowered_eagerly_and_for_several_platforms(ops: dict[str, CustomOpDef]) -> None:
    exported = jax.export.export(jax.jit(ops["formula"]), platforms=("cpu", "cuda"))(X)
    np.testing.assert_allclose(exported.call(X), X * STEPS, rtol=1e-6)
    np.testing.assert_allclose(ops["formula"](X), X * STEPS, rtol=1e-6)


def test_those_with_branches_inside_are_lowered_too(ops: dict[str, CustomOpDef]) -> None:
    @custom_op("newest::expm")
    def exponential(x: jax.Array) -> jax.Array:
        return expm(x)

    exponential.register_autograd("derive")
    matrix = jnp.array([[0.1, 0.2], [0.3, 0.4]])
    got, due = (jax.jit(jax.grad(lambda m, run=run: run(m).sum()))(matrix) for run in (exponential, expm))
    np.testing.assert_allclose(got, due, rtol=1e-6)
