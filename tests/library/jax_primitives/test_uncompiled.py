"""Kernels and rules get values where nothing is compiled: under jax.disable_jit, and by oplib's setting."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import Tracer

import oplib
from oplib.library import CustomOpDef, custom_op

from .uncompiled import uncompiled_kernels

X = jnp.array([0.5, 1.0])
COS = np.cos(np.array(X))
Seen = list[tuple[str, bool]]


@pytest.fixture(params=[jax.disable_jit, uncompiled_kernels], ids=["disable_jit", "compile_kernels"])
def uncompiled(request: pytest.FixtureRequest) -> Iterator[None]:
    with request.param():
        yield


@pytest.fixture
def seen() -> Seen:
    return []


def make_op(kind: str, seen: Seen) -> CustomOpDef:
    """A sine, all parts of which note whether their values are known."""

    def note(part: str, *values: Any) -> None:
        seen.append((part, not any(isinstance(value, Tracer) for value in values)))

    def on_arrays(x: jax.Array) -> jax.Array:
        note("kernel", jax.lax.stop_gradient(x))
        return jnp.sin(x)

    def on_host(x: np.ndarray) -> np.ndarray:
        note("kernel", x)
        return np.sin(x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        note("setup", *inputs, output)
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, g: Any) -> Any:
        note("formula", *ctx.saved_tensors, g)
        return g * jnp.cos(ctx.saved_tensors[0])

    def push(primals: Any, tangents: Any) -> Any:
        note("rule", *primals)
        return jnp.sin(primals[0]), tangents[0] * jnp.cos(primals[0])

    op = custom_op("valued::sine", on_host if kind == "host" else on_arrays)
    op.register_fake(lambda x: x)
    if kind == "jvp":
        op.register_jvp(push)
    elif kind == "derive":
        op.register_autograd("derive")
    else:
        op.register_autograd(backward, setup_context=save)
    return op


def on_tape(op: CustomOpDef) -> Any:
    x = oplib.tensor([0.5, 1.0], requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None
    return x.grad.array


CALLS: dict[str, tuple[Callable[[CustomOpDef], Any], Any]] = {
    "call": (lambda op: op(X), np.sin(X)),
    "grad": (lambda op: jax.grad(lambda x: op(x).sum())(X), COS),
    "vjp": (lambda op: jax.vjp(op, X)[1](jnp.ones(2))[0], COS),
    "jvp": (lambda op: jax.jvp(op, (X,), (jnp.ones(2),))[1], COS),
    "tape": (on_tape, COS),
}
SECOND: dict[str, Callable[[CustomOpDef], Any]] = {
    "grad of grad": lambda op: jax.grad(lambda x: jax.grad(lambda y: op(y).sum())(x).sum())(X),
    "hessian": lambda op: jax.hessian(lambda x: op(x).sum())(X).sum(0),
    "vmap of grad": lambda op: jax.vmap(jax.grad(lambda x: jax.grad(op)(x)))(X),
    "jit of grad": lambda op: jax.jit(jax.grad(lambda x: jax.grad(lambda y: op(y).sum())(x).sum()))(X),
}


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["formula", "derive", "jvp", "host"])
@pytest.mark.parametrize("call", CALLS)
def test_kernels_get_values(kind: str, call: str, seen: Seen) -> None:
    run, expected = CALLS[call]
    np.testing.assert_allclose(run(make_op(kind, seen)), expected, rtol=1e-6)
    assert (("kernel" if kind != "jvp" or call == "call" else "rule"), True) in seen
    if jax.config.jax_disable_jit:
        assert ("kernel", False) not in seen


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["formula", "host"])
def test_setup_and_formula_get_values_under_grad(kind: str, seen: Seen) -> None:
    jax.grad(lambda x: make_op(kind, seen)(x).sum())(X)
    assert seen == [("kernel", True), ("setup", True), ("formula", True)]


@pytest.mark.usefixtures("uncompiled")
def test_a_jvp_rule_gets_values(seen: Seen) -> None:
    op = make_op("jvp", seen)
    jax.grad(lambda x: op(x).sum())(X)
    jax.jvp(op, (X,), (X,))
    assert seen == [("rule", True)] * 2


@pytest.mark.matrix(3)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", ["formula", "derive", "jvp", "host"])
@pytest.mark.parametrize("call", SECOND)
def test_higher_derivatives_and_maps_are_right(kind: str, call: str, seen: Seen) -> None:
    np.testing.assert_allclose(SECOND[call](make_op(kind, seen)), -np.sin(X), rtol=1e-6)


@pytest.mark.usefixtures("uncompiled")
def test_a_formula_may_branch_on_values_under_grad() -> None:
    @custom_op("valued::branching")
    def branching(x: jax.Array) -> jax.Array:
        return x * 2 if x.sum() > 0 else -x

    @branching.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, g):
        return g * 2 if ctx.saved_tensors[0].sum() > 0 else -g

    assert jax.grad(lambda x: branching(x).sum())(X).tolist() == [2.0, 2.0]
    assert jax.grad(lambda x: branching(x).sum())(-X).tolist() == [-1.0, -1.0]


def test_a_kernel_with_compile_false_gets_values_under_grad(seen: Seen) -> None:
    @custom_op("valued::plain", compile=False, autograd="derive")
    def plain(x: jax.Array) -> jax.Array:
        seen.append(("kernel", not isinstance(jax.lax.stop_gradient(x), Tracer)))
        return jnp.sin(x) if x.sum() > 0 else x

    np.testing.assert_allclose(jax.grad(lambda x: plain(x).sum())(X), COS, rtol=1e-6)
    assert seen == [("kernel", True)]


@pytest.mark.parametrize("setting", [jax.disable_jit, uncompiled_kernels])
def test_debug_nans_stops_in_the_line_of_the_kernel(setting: Any) -> None:
    @custom_op("valued::log", autograd="derive")
    def log(x: jax.Array) -> jax.Array:
        shifted = x - 2.0
        return jnp.log(shifted)

    with setting(), jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        jax.grad(lambda x: log(x).sum())(X)
    names = [entry.name for entry in caught.traceback]
    assert "log" in names


def test_a_value_that_a_compiled_kernel_needs_is_still_refused() -> None:
    @custom_op("valued::needs")
    def needs(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    needs.register_autograd(lambda ctx, g: g)
    with uncompiled_kernels(), pytest.raises(oplib.errors.TracingError, match="needs the concrete value"):
        jax.jit(jax.grad(lambda x: needs(x).sum()))(X)


def test_the_same_op_is_compiled_again_afterwards(seen: Seen) -> None:
    op = make_op("formula", seen)
    with jax.disable_jit():
        jax.grad(lambda x: op(x).sum())(X)
    seen.clear()
    np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(X), COS, rtol=1e-6)
    assert {known for part, known in seen if part != "formula"} == {False}
    seen.clear()
    jax.grad(lambda x: op(x).sum())(X)
    assert ("kernel", False) not in seen


WAYS: dict[str, Any] = {
    "grad": lambda f, x: jax.grad(lambda x: f(x).sum())(x),
    "jvp": lambda f, x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: jax.linearize(f, x)[1](x),
    "vjp": lambda f, x: jax.vjp(f, x)[1](np.ones(np.shape(x), np.float32)),
    "hessian": lambda f, x: jax.hessian(lambda x: f(x).sum())(x),
    "jit of grad": lambda f, x: jax.jit(jax.grad(lambda x: f(x).sum()))(x),
    "checkpoint": lambda f, x: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(x),
}


def multiply(x: Any, y: Any) -> Any:
    return jnp.asarray(x) * y * y


def make_product(hint: Any, rule: str) -> CustomOpDef:
    """``x * y * y``, whose rules read attributes that only arrays have."""

    def product(x: hint, y: hint) -> hint:
        return x * y * y

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*[value.reshape(value.shape) for value in inputs])

    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g.reshape(g.shape) * y * y, g * x * y * 2

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        save(ctx, (x, y), None)
        return x * y * y

    def push(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        first = 0.0 if dx is None else dx.reshape(dx.shape) * y.reshape(y.shape) ** 2
        return op(x, y), first + (0.0 if dy is None else dy.reshape(dy.shape) * x * y * 2)

    op = custom_op(product)
    if hint is np.ndarray:
        op.register_fake(lambda x, y: jnp.empty(x.shape, x.dtype))
    if rule == "jvp":
        op.register_jvp(push)
    else:
        op.register_autograd(
            backward, **({"forward": forward} if rule == "forward" else {"setup_context": save})
        )
    return op


@pytest.mark.slow
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("rule", ["formula", "forward", "jvp"])
@pytest.mark.parametrize("hint", [jax.Array, np.ndarray, oplib.Tensor], ids=lambda hint: hint.__name__)
def test_rules_get_arrays_where_the_user_has_passed_numbers_and_numpy_arrays(hint: Any, rule: str) -> None:
    op = make_product(hint, rule)
    for value, (name, way), place in product((2.0, np.array([2.0, 3.0], np.float32)), WAYS.items(), (0, 1)):
        if name == "hessian" and (hint, rule) == (np.ndarray, "jvp"):
            continue  # JAX cannot differentiate a host kernel in a jvp rule

        def call(function: Any, x: Any, fixed: Any = value, place: int = place) -> Any:
            return function(fixed, x) if place else function(x, fixed)

        found, due = way(partial(call, op), value), way(partial(call, multiply), value)
        for got, right in zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6, err_msg=f"{name} at {value!r}")


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("hint", [jax.Array, np.ndarray, oplib.Tensor], ids=lambda hint: hint.__name__)
@pytest.mark.parametrize("style", ["setup_context", "forward"])
def test_an_array_that_is_passed_twice_is_saved_as_the_argument_that_is_named(hint: Any, style: str) -> None:
    def product(x: hint, y: hint) -> hint:
        return x * y * y

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(y)
        return x * y * y

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    op = custom_op(product)
    if hint is np.ndarray:
        op.register_fake(lambda x, y: jnp.empty(x.shape, x.dtype))
    rules: Any = {"forward": forward} if style == "forward" else {"setup_context": save}
    op.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0] ** 2, None), **rules)
    x = oplib.Tensor.from_array(X, requires_grad=True)
    (slope,) = oplib.autograd.grad(op(x, oplib.Tensor.from_array(X)).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad((slope + 0 * x).sum(), x)
    assert second.tolist() == [0.0, 0.0]
