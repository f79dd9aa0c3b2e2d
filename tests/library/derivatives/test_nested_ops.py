"""Formulas that call ops: forward mode follows the computation in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from oplib.errors import AutogradError
from oplib.library import custom_op, ops
from oplib.library.registration.custom_op_def import CustomOpDef

X = jnp.array([0.3, -0.7, 1.1])
V = jnp.array([1.0, 2.0, -1.0])

pytestmark = pytest.mark.spec("D.32")


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def make_flip() -> CustomOpDef:
    @custom_op("nested::flip")
    def flip(x: jax.Array) -> jax.Array:
        return x[::-1]

    flip.register_autograd(lambda ctx, g: flip(g))
    return flip


def make_straight_through() -> CustomOpDef:
    @custom_op("nested::straight")
    def straight(x: jax.Array) -> jax.Array:
        return jnp.round(x)

    straight.register_autograd(lambda ctx, g: g)
    return straight


def make_scaled() -> CustomOpDef:
    """Makes an identity whose gradient is scaled."""

    @custom_op("nested::scaled")
    def scaled(x: jax.Array) -> jax.Array:
        return x * 1.0

    scaled.register_autograd(lambda ctx, g: 7 * g)
    return scaled


def make_doubled() -> CustomOpDef:
    """Makes an op with a jvp rule that calls the op."""

    @custom_op("nested::doubled")
    def doubled(x: jax.Array) -> jax.Array:
        return 2 * x

    doubled.register_jvp(lambda p, t: (doubled(p[0]), doubled(t[0])))
    return doubled


def make_sine(formula: Callable[[Any, Any], Any], name: str = "nested::sine", **options: Any) -> CustomOpDef:
    @custom_op(name, **options)
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    sine.register_autograd(lambda ctx, g: formula(ctx.saved_tensors[0], g), setup_context=save)
    return sine


def flip_twice() -> Callable[[Any, Any], Any]:
    flip = make_flip()
    return lambda x, g: flip(flip(g * jnp.cos(x)))


def double_and_halve() -> Callable[[Any, Any], Any]:
    doubled = make_doubled()
    return lambda x, g: doubled(g) / 2 * jnp.cos(x)


def derive_forwards() -> Callable[[Any, Any], Any]:
    inner = make_sine(lambda x, g: g * jnp.cos(x), "nested::inner")
    return lambda x, g: jax.jvp(inner, (x,), (g,))[1]


def derive_backwards() -> Callable[[Any, Any], Any]:
    inner = make_sine(lambda x, g: g * jnp.cos(x), "nested::inner")
    return lambda x, g: jax.vjp(inner, x)[1](g)[0]


def multiply_by_a_built_in_op() -> Callable[[Any, Any], Any]:
    return lambda x, g: ops.oplib.mul.Tensor(g, jnp.cos(x))


def flip_in_a_loop() -> Callable[[Any, Any], Any]:
    flip = make_flip()
    return lambda x, g: jax.lax.fori_loop(0, 2, lambda _, c: flip(c), g * jnp.cos(x))


def flip_in_a_map() -> Callable[[Any, Any], Any]:
    flip = make_flip()
    return lambda x, g: jax.vmap(flip)(jnp.stack([g, g]))[0][::-1] * jnp.cos(x)


FORMULAS = [
    flip_twice,
    double_and_halve,
    derive_forwards,
    derive_backwards,
    multiply_by_a_built_in_op,
    flip_in_a_loop,
    flip_in_a_map,
]
RUNS: dict[str, Callable[[Any], Any]] = {
    "jvp": lambda f: jax.jvp(f, (X,), (V,)),
    "jacfwd in jit": lambda f: jax.jit(jax.jacfwd(f))(X),
    "mapped": lambda f: jax.vmap(lambda x: jax.jvp(f, (x,), (V,))[1])(jnp.stack([X, V])),
    "hessian": lambda f: jax.hessian(lambda x: (f(x) ** 2).sum())(X),
    "forward over forward": lambda f: jax.jvp(lambda x: jax.jvp(f, (x,), (V,))[1], (X,), (V,)),
    "reverse over forward": lambda f: jax.grad(lambda x: jax.jvp(f, (x,), (V,))[1].sum())(X),
}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("make", FORMULAS, ids=lambda make: make.__name__)
def test_derivatives_are_those_of_the_plain_function(make: Any, compiled: bool) -> None:
    op = make_sine(make(), compile=compiled)
    for name, run in RUNS.items():
        for one, other in zip(jax.tree.leaves(run(op)), jax.tree.leaves(run(jnp.sin)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)


def test_an_op_whose_formula_calls_the_op_has_forward_mode() -> None:
    flip = make_flip()
    np.testing.assert_allclose(jax.jvp(flip, (X,), (V,))[1], V[::-1])
    np.testing.assert_allclose(jax.jacfwd(flip)(X), np.eye(3)[::-1])


def test_a_formula_that_takes_forward_mode_of_the_op_itself_is_refused() -> None:
    op = make_sine(lambda x, g: jax.jvp(op, (x,), (g,))[1])
    with pytest.raises(
        AutogradError, match=r"^nested::sine: no forward mode .* takes forward mode of the op it"
    ):
        jax.jvp(op, (X,), (V,))


def test_the_value_of_an_op_counts_and_not_the_derivative_that_it_declares() -> None:
    scaled, straight = make_scaled(), make_straight_through()
    op = make_sine(lambda x, g: scaled(g) * jnp.cos(x))
    np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(X), jnp.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(op, (X,), (V,))[1], V * jnp.cos(X), rtol=1e-6)
    rounds = make_sine(lambda x, g: straight(g) * jnp.cos(x))
    with pytest.raises(
        AutogradError, match=r"nested::sine: .*'round' at test_nested_ops.py:\d+ is not shown"
    ):
        jax.jvp(rounds, (X,), (V,))


def test_custom_derivatives_of_residuals_are_kept_at_the_second_order() -> None:
    ramp = jax.custom_jvp(lambda x: x**2)
    ramp.defjvp(lambda p, t: (p[0] ** 2, 10 * t[0]))
    doubled = make_doubled()
    op = make_sine(lambda x, g: doubled(g) * ramp(x))
    second = jax.jvp(lambda x: jax.jvp(op, (x,), (V,))[1], (X,), (V,))[1]
    np.testing.assert_allclose(second, 2 * V * 10 * V, rtol=1e-6)


def test_a_traced_function_of_gradient_and_residual_keeps_the_derivative_of_the_residual() -> None:
    ramp = jax.custom_jvp(lambda x: 2 * x)
    ramp.defjvp(lambda p, t: (2 * p[0], 10 * t[0]))
    shared = jax.jit(ramp)  # one trace for both
    op = make_sine(lambda x, g: shared(g) * shared(x))
    first = lambda x: jax.jvp(op, (x,), (V,))[1]  # noqa: E731
    np.testing.assert_allclose(first(X), 2 * V * 2 * X, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(first, (X,), (V,))[1], 2 * V * 10 * V, rtol=1e-6)


@pytest.mark.parametrize("jit", [False, True], ids=["at once", "in jit"])
def test_a_loop_that_jax_cannot_transpose_is_named_with_its_line(jit: bool) -> None:
    def formula(x: Any, g: Any) -> Any:
        return jax.lax.fori_loop(0, x.argmax(), lambda _, c: c * jnp.cos(x), g)

    op = make_sine(formula)
    push = lambda x: jax.jvp(op, (x,), (V,))[1]  # noqa: E731
    line = formula.__code__.co_firstlineno + 1
    with pytest.raises(
        AutogradError, match=f"^nested::sine: .*: 'while' at test_nested_ops.py:{line} cannot be transposed"
    ):
        (jax.jit(push) if jit else push)(X)


def test_the_check_runs_the_formula_once_per_signature() -> None:
    runs: list[Any] = []

    def formula(x: Any, g: Any) -> Any:
        runs.append(x.shape)
        return g * jnp.cos(x)

    op = make_sine(formula)
    for _ in range(3):
        jax.jit(lambda x: jax.jvp(op, (x,), (V,))[1])(X)
    assert len(runs) == 2 + 1 + 1  # the check and the transposition, and then the transposition


def note_at_once(note: Any, g: Any) -> Any:
    jax.debug.callback(note, g, ordered=True)
    return g


def note_absolute_values(note: Any, g: Any) -> Any:
    jax.debug.callback(note, jnp.abs(g))
    return g


def note_with_a_result(note: Any, g: Any) -> Any:
    def run(value: Any) -> Any:
        note(value)
        return np.asarray(value)

    io_callback(run, jax.ShapeDtypeStruct(g.shape, g.dtype), g)
    return g


def note_in_a_loop(note: Any, g: Any) -> Any:
    return jax.lax.fori_loop(0, 2, lambda _, c: note_absolute_values(note, c) / 2, 4 * g)


NOTES = [note_at_once, note_absolute_values, note_with_a_result, note_in_a_loop]


@pytest.mark.parametrize("noting", NOTES, ids=lambda noting: noting.__name__)
@pytest.mark.parametrize("jit", [False, True], ids=["at once", "in jit"])
def test_a_callback_in_a_formula_sees_gradients_only(noting: Any, jit: bool) -> None:
    seen: list[Any] = []
    op = make_sine(lambda x, g: noting(lambda value: seen.append(np.asarray(value)), g) * jnp.cos(x))
    push, pull = (lambda x: jax.jvp(op, (x,), (V,))[1]), jax.grad(lambda x: (op(x) * V).sum())
    found, due = ((jax.jit(f) if jit else f)(X) for f in (push, pull))
    np.testing.assert_allclose(found, V * jnp.cos(X), rtol=1e-6)
    np.testing.assert_allclose(due, V * jnp.cos(X), rtol=1e-6)
    jax.effects_barrier()
    assert seen
    assert all(value.any() for value in seen)  # forward mode gives it no zeros
