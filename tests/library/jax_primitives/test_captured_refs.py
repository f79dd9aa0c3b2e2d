"""A call with a ``jax.Ref`` among its arguments runs in place, with its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentTypeError, MissingRuleError
from oplib.library import custom_op

X = jnp.array([0.3, -0.7, 1.1])
ROWS = jnp.stack([X, 2 * X])

pytestmark = pytest.mark.spec("D.46")


def make_writer(hint: Any = Any) -> Any:
    """Makes an op that writes 2x and gives 3x; its formula says 7."""

    def write(x, ref):
        ref[...] = 2 * x
        return x + ref[...]

    write.__annotations__ = {"x": jax.Array, "ref": hint, "return": jax.Array}
    op = custom_op("refs::write", write)
    op.register_autograd(lambda ctx, grad: (7 * grad, None))
    return op


def make_stash() -> Any:
    """Makes an identity that writes the gradient to a Ref, as JAX's page on Refs does by ``custom_vjp``."""

    @custom_op("refs::stash")
    def stash(x: jax.Array, sink: Any) -> jax.Array:
        return x * 1.0

    def backward(ctx: Any, grad: Any) -> Any:
        ctx.sink[...] = grad
        return grad, None

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.sink = inputs[1]

    stash.register_autograd(backward, setup_context=save)
    return stash


def scan(op: Any, rows: Any, ref: Any) -> Any:
    return jax.lax.scan(lambda c, x: (c, op(x, ref)), 0.0, rows)[1]


# What a run gives, and what the Ref holds then.
RUNS: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "eager": (lambda op, ref: op(X, ref), 3 * X, 2 * X),
    "jit": (lambda op, ref: jax.jit(op)(X, ref), 3 * X, 2 * X),
    "jit over a closure": (lambda op, ref: jax.jit(lambda x: op(x, ref))(X), 3 * X, 2 * X),
    "scan": (lambda op, ref: scan(op, ROWS, ref), 3 * ROWS, 4 * X),
    "scan in jit": (lambda op, ref: jax.jit(scan, static_argnums=0)(op, ROWS, ref), 3 * ROWS, 4 * X),
    "grad": (lambda op, ref: jax.grad(lambda x: op(x, ref).sum())(X), 7 + 0 * X, 2 * X),
    "grad in jit": (
        lambda op, ref: jax.jit(jax.grad(lambda x, r: op(x, r).sum()))(X, ref), 7 + 0 * X, 2 * X
    ),
    "grad of scan": (
        lambda op, ref: jax.jit(jax.grad(lambda x, r: scan(op, x, r).sum()))(ROWS, ref), 7 + 0 * ROWS, 4 * X
    ),
    "a Ref of the function": (
        lambda op, ref: jax.jit(lambda x: op(x, jax.new_ref(x)) + 0 * ref[...])(X), 3 * X, 0 * X
    ),
    "a tensor": (lambda op, ref: op(oplib.Tensor.from_array(X), ref).array, 3 * X, 2 * X),
    "oplib.jit": (
        lambda op, ref: oplib.jit(lambda x: op(x, ref))(oplib.Tensor.from_array(X)).array, 3 * X, 2 * X
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("hint", [Any, jax.Ref], ids=["Any", "jax.Ref"])
def test_the_kernel_reads_and_writes_it(name: str, hint: Any) -> None:
    run, due, held = RUNS[name]
    op, ref = make_writer(hint), jax.new_ref(jnp.zeros(3))
    np.testing.assert_allclose(run(op, ref), due, rtol=1e-6)
    np.testing.assert_allclose(ref[...], held, rtol=1e-6)


def test_the_next_call_takes_the_ref_that_it_gets() -> None:
    op, refs = make_writer(), [jax.new_ref(jnp.zeros(3)) for _ in range(3)]
    for scale, ref in enumerate(refs, 1):
        op(scale * X, ref)
        op(oplib.Tensor.from_array(scale * X), ref)
    for scale, ref in enumerate(refs, 1):
        np.testing.assert_allclose(ref[...], 2 * scale * X, rtol=1e-6)


@pytest.mark.parametrize("jit", [False, True], ids=["at once", "in jit"])
def test_a_formula_writes_a_gradient_to_it(jit: bool) -> None:
    stash, sink = make_stash(), jax.new_ref(jnp.zeros(3))
    slope = jax.grad(lambda x, sink: (stash(x, sink) ** 3).sum())
    found = (jax.jit(slope) if jit else slope)(X, sink)
    np.testing.assert_allclose(found, 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(sink[...], 3 * X**2, rtol=1e-6)


def test_a_formula_writes_a_gradient_to_it_on_the_tape() -> None:
    stash, sink = make_stash(), jax.new_ref(jnp.zeros(3))
    x = oplib.Tensor.from_array(X).requires_grad_()
    (stash(x, sink) ** 3).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.array, 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(sink[...], 3 * X**2, rtol=1e-6)


def test_an_op_that_is_derived_is_its_kernel() -> None:
    @custom_op("refs::scale", autograd="derive")
    def scale(x: jax.Array, factors: Any) -> jax.Array:
        return jnp.sin(x) * factors["a"][...]

    factors = {"a": jax.new_ref(2 * X)}
    np.testing.assert_allclose(scale(X, factors), jnp.sin(X) * 2 * X, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: scale(x, factors).sum())(X), jnp.cos(X) * 2 * X, rtol=1e-6)


def test_a_missing_rule_is_missing() -> None:
    @custom_op("refs::bare")
    def bare(x: jax.Array, ref: jax.Ref) -> jax.Array:
        return x * ref[...]

    ref = jax.new_ref(X)
    np.testing.assert_allclose(jax.jit(bare)(X, ref), X * X, rtol=1e-6)
    with pytest.raises(MissingRuleError, match=r"refs::bare: .*no autograd formula was registered"):
        jax.grad(lambda x: bare(x, ref).sum())(X)


def test_what_cannot_work_is_refused() -> None:
    op, ref = make_writer(), jax.new_ref(jnp.zeros(3))
    with pytest.raises(Exception, match=r"vmapped value on an unbatched array reference"):
        jax.vmap(lambda x: op(x, ref))(ROWS)

    @custom_op("refs::array")
    def array(x: jax.Array, ref: jax.Array) -> jax.Array:
        return x * ref[...]

    with pytest.raises(ArgumentTypeError, match=r"refs::array: argument 'ref' .* of type Ref"):
        array(X, ref)


@pytest.mark.parametrize("rule", ["none", "a formula", "derive"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_local_op_closes_over_a_ref_of_the_traced_function(rule: str, mapped: bool) -> None:
    def count(x: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(()))

        def double(x: jax.Array) -> jax.Array:
            ref[...] = ref[...] + jax.lax.stop_gradient(x).sum()
            return x * 2

        op = oplib.library.custom_op(double, autograd="derive" if rule == "derive" else None)
        if rule == "a formula":
            op.register_autograd(lambda ctx, grad: grad * 2)
        return op(op(x)), ref[...]

    run = jax.vmap(count) if mapped else count
    x = jnp.ones((2, 3)) if mapped else jnp.ones(3)
    for call in (jax.jit(run), run) if mapped else (jax.jit(run),):
        twice, total = call(x)
        np.testing.assert_array_equal(twice, 4 * x)
        np.testing.assert_array_equal(total, jnp.full(x.shape[:-1], 3.0 + 6.0))
    _, rows = jax.jit(lambda rows: jax.lax.scan(lambda c, row: (c, count(row)[1]), 0, rows))(jnp.ones((2, 3)))
    np.testing.assert_array_equal(rows, [9.0, 9.0])
