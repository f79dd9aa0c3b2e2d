"""Policies of ``jax.checkpoint`` see of an op what they see of the same function in JAX."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name, print_saved_residuals

from oplib.errors import ResultError
from oplib.library import custom_op
from oplib.library.registration.registry import registry

X, W = jnp.linspace(0.1, 0.9, 9).reshape(3, 3), 0.5 * jnp.eye(3)
POLICIES = jax.checkpoint_policies
REMAT3 = getattr(jax.config, "jax_remat3", False)
CUSTOM_VJP3 = getattr(jax.config, "jax_custom_vjp3", False)
NAMES_THE_JIT = jax.__version_info__ >= (0, 11)  # and not the operation or the name that it was saved by


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def kernel(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.cos(checkpoint_name(jnp.sin(x @ w), "hidden")) @ w


def pull(saved: Any, grad: Any) -> Any:
    return jax.vjp(kernel, *saved)[1](grad)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def forward(ctx: Any, x: Any, w: Any) -> Any:
    ctx.save_for_backward(x, w)
    return kernel(x, w)


by_hand = jax.custom_vjp(kernel)
by_hand.defvjp(lambda x, w: (kernel(x, w), (x, w)), pull)


def make(kind: str) -> tuple[Any, Callable[..., Any]]:
    """Returns an op, and the function in JAX to which it should be equal."""
    op = custom_op("remat::op", kernel)
    if kind == "derive":
        op.register_autograd("derive")
        return op, kernel
    options = {"forward": forward} if kind == "forward" else {"setup_context": save}
    op.register_autograd(lambda ctx, g: pull(ctx.saved_tensors, g), **options)
    return op, by_hand


def list_saved(function: Callable[..., Any], policy: Any) -> list[str]:
    """Lists what a policy saves of a function between two others, without the lines of code."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_saved_residuals(jax.checkpoint(surround(function), policy=policy), X, W)
    saved = sorted(line.split(" from ")[0] for line in text.getvalue().splitlines())
    return [line.split(" ")[0] for line in saved] if NAMES_THE_JIT else saved


def surround(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: (jnp.sin(function(jnp.tanh(x), w)) ** 2).sum()


KINDS = pytest.mark.parametrize("kind", ["formula", "forward", "derive"])
SAVING = {
    "nothing": POLICIES.nothing_saveable,
    "everything": POLICIES.everything_saveable,
    "products": POLICIES.dots_saveable,
    "a name inside": POLICIES.save_only_these_names("hidden"),
    "all but a name": POLICIES.save_anything_except_these_names("hidden"),
}


@KINDS
@pytest.mark.parametrize("name", SAVING)
def test_a_policy_saves_what_it_saves_of_the_function(name: str, kind: str) -> None:
    op, function = make(kind)
    saved = list_saved(op, SAVING[name])
    if REMAT3 and CUSTOM_VJP3 and kind != "derive" and name in ("products", "all but a name"):
        # custom_vjp saves what its backward does not read too; the op saves inputs and result
        assert saved == ["f32[3,3]"] * 3 < list_saved(function, SAVING[name])
        return
    assert saved == list_saved(function, SAVING[name])


def offload(*names: str) -> Any:
    return POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=names,
        offload_src="device",
        offload_dst="pinned_host",
    )


@KINDS
def test_the_results_have_the_name_of_the_op(kind: str) -> None:
    op, _ = make(kind)
    saved = list_saved(op, POLICIES.save_only_these_names("remat::op"))
    assert saved.count("f32[3,3]") == 3 if NAMES_THE_JIT else "f32[3,3] named 'remat::op'" in saved
    assert any("<host>" in line for line in list_saved(op, offload("remat::op")))


@pytest.mark.matrix(3)
@KINDS
@pytest.mark.parametrize("name", [*SAVING, "its results", "offloaded"])
@pytest.mark.parametrize("mapped", [False, True], ids=["one", "mapped"])
def test_derivatives_are_those_without_a_checkpoint(name: str, kind: str, mapped: bool) -> None:
    op, function = make(kind)
    further = {
        "its results": POLICIES.save_only_these_names("remat::op"),
        "offloaded": offload("remat::op", "hidden"),
    }
    policy = {**SAVING, **further}[name]

    def differentiate(function: Any, wrap: Callable[..., Any]) -> Any:
        grad = jax.grad(wrap(surround(function)), (0, 1))
        first = jax.jit(jax.vmap(grad, (0, None)))(jnp.stack([X, 2 * X]), W) if mapped else grad(X, W)
        if name == "offloaded":  # JAX raises for the second derivative, of any function
            return first
        return first, jax.grad(lambda x, w: grad(x, w)[0].sum(), (0, 1))(X, W)

    found = differentiate(op, lambda f: jax.checkpoint(f, policy=policy))
    expected = differentiate(function, lambda f: f)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, expected)


def test_a_forward_that_returns_another_shape_than_the_kernel_is_refused() -> None:
    op = custom_op("remat::op", kernel)
    op.register_autograd(lambda ctx, g: (g, g), forward=lambda ctx, x, w: kernel(x, w)[0])
    run = jax.checkpoint(op, policy=POLICIES.everything_saveable)
    with pytest.raises(ResultError, match="remat::op: forward and the kernel return different results"):
        jax.grad(lambda x: run(x, W).sum())(X)


@KINDS
def test_a_saved_result_is_not_computed_again(kind: str) -> None:
    op, _ = make(kind)

    def loss(x: Any, w: Any) -> Any:
        return jnp.sin(op(x, w)).sum()

    def count(policy: Any) -> int:
        program = jax.jit(jax.grad(jax.checkpoint(loss, policy=policy, prevent_cse=True))).trace(X, W)
        return str(program.jaxpr).count("dot_general")

    assert count(POLICIES.everything_saveable) < count(POLICIES.nothing_saveable)


@pytest.mark.parametrize("policy", SAVING.values(), ids=SAVING)
def test_every_order_uses_the_rules_under_a_checkpoint(policy: Any) -> None:
    @custom_op("remat::marked")
    def marked(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    marked.register_autograd(lambda ctx, g: 7 * g * jnp.cos(ctx.saved_tensors[0]), setup_context=save)
    first = jax.grad(jax.checkpoint(lambda x: marked(x), policy=policy))
    np.testing.assert_allclose(first(0.5), 7 * np.cos(0.5), rtol=1e-6)
    product = jax.grad(jax.checkpoint(lambda x: marked(x) * first(x), policy=policy))
    expected = 49 * np.cos(0.5) ** 2 - 7 * np.sin(0.5) ** 2
    np.testing.assert_allclose(product(0.5), expected, rtol=1e-6)


def test_a_kernel_with_a_batching_rule_keeps_it() -> None:
    seen: list[str] = []

    @custom_op("remat::ruled")
    def ruled(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    @ruled.register_vmap
    def rule(info: Any, in_dims: Any, x: Any) -> Any:
        seen.append("rule")
        return jnp.sin(x), in_dims[0]

    ruled.register_autograd(lambda ctx, g: g * jnp.cos(ctx.saved_tensors[0]), setup_context=save)
    found = jax.vmap(jax.grad(jax.checkpoint(lambda x: ruled(x))))(X[0])
    np.testing.assert_allclose(found, np.cos(X[0]), rtol=1e-6)
    assert seen


@pytest.mark.parametrize("kind", ["formula", "forward"])
def test_every_order_uses_the_rules_through_a_loop_that_is_linearized_inside_a_loop(kind: str) -> None:
    def run(ctx: Any, x: Any) -> Any:
        y = jnp.tanh(x)
        ctx.save_for_backward(y)
        return y

    def marked(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    op = custom_op("remat::marked", marked)
    options: Any = {"forward": run}
    if kind == "formula":
        options = {"setup_context": lambda ctx, inputs, output: ctx.save_for_backward(output)}
    op.register_autograd(lambda ctx, g: 7 * g * (1 - ctx.saved_tensors[0] ** 2), **options)
    by_hand = jax.custom_vjp(jnp.tanh)
    by_hand.defvjp(lambda x: (by_hand(x),) * 2, lambda y, g: (7 * g * (1 - y**2),))

    def differentiate(function: Callable[..., Any]) -> Any:
        def loop(carry: Any, rows: Any, w: Any) -> Any:
            return jax.lax.scan(lambda c, v: (function(c * v + w), c * w), carry, rows)

        def total(w: Any) -> Any:
            def step(carry: Any, row: Any) -> Any:
                return jax.vjp(loop, carry, jnp.stack([row, 2 * row]), w)[0]

            carry, rows = jax.lax.scan(step, X[0], X / 10)
            return (carry**2).sum() + (rows**2).sum()

        return jax.grad(lambda w: (jax.grad(total)(w) ** 2).sum())(W[0])

    np.testing.assert_allclose(differentiate(op), differentiate(by_hand), rtol=1e-4)


SEEN = {
    "one argument": lambda f: jax.grad(f),
    "both": lambda f: jax.grad(f, (0, 1)),
    "jit": lambda f: jax.jit(jax.grad(jax.jit(f))),
    "scan": lambda f: jax.grad(lambda x, w: jax.lax.scan(lambda c, v: (c + f(v + c, w), c), 0.0, x[None])[0]),
    "twice": lambda f: jax.grad(lambda x, w: (jax.grad(f)(x, w) ** 2).sum()),
    "forward mode": lambda f: lambda x, w: jax.jvp(f, (x, w), (x, w)),
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("around", SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("kind", ["formula", "forward", "derive", "jvp", "linear", "vmap", "host", "nothing"])
def test_an_op_whose_name_a_policy_saves_has_its_own_derivative(kind: str, around: Any) -> None:
    def run(x: Any, w: Any) -> Any:
        return jnp.tanh(x) @ w if kind != "linear" else 2 * x + w

    def twice_pull(x: Any, w: Any, g: Any) -> Any:  # the double of the derivative tells that it was used
        return tuple(2 * grad for grad in jax.vjp(run, x, w)[1](g))

    by_hand = jax.custom_jvp(run)
    by_hand.defjvp(lambda p, t: (by_hand(*p), 2 * jax.jvp(run, p, t)[1]))
    expected = by_hand if kind not in ("derive", "linear") else run

    def host(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.tanh(x) @ w

    def kernel(x: jax.Array, w: jax.Array) -> jax.Array:
        return run(x, w)

    op = custom_op("remat::seen", host if kind == "host" else kernel)
    if kind == "host":
        op.register_fake(lambda x, w: x)
    if kind == "derive":
        op.register_autograd("derive")
    elif kind == "jvp":
        op.register_jvp(lambda p, t: (run(*p), 2 * jax.jvp(run, p, instantiate(p, t))[1]))
    elif kind == "linear":
        op.register_autograd(lambda ctx, g: (2 * g, g), linear=True)
    elif kind == "nothing":
        op.register_autograd(constant="because it is a test")
        expected = jax.custom_jvp(run)
        expected.defjvp(lambda p, t: (run(*p), jnp.zeros_like(p[0])))
    else:
        options: Any = {"forward": lambda ctx, x, w: (ctx.save_for_backward(x, w), run(x, w))[1]}
        if kind != "forward":
            options = {"setup_context": save}
        op.register_autograd(lambda ctx, g: twice_pull(*ctx.saved_tensors, g), **options)
    if kind == "vmap":
        op.register_vmap(lambda info, in_dims, x, w: (jax.vmap(run, in_dims)(x, w), 0))
    policy = POLICIES.save_only_these_names("remat::seen")
    found = around(jax.checkpoint(surround(op), policy=policy))(X, W)
    due = around(surround(expected))(X, W)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, due)


def instantiate(primals: Any, tangents: Any) -> tuple[Any, ...]:
    return tuple(
        jnp.zeros_like(primal) if tangent is None else tangent
        for primal, tangent in zip(primals, tangents, strict=True)
    )


OWN = {"remat::op", "name", "stop_gradient"}


@pytest.mark.parametrize("kind", ["formula", "forward", "jvp", "derive"])
def test_a_jaxpr_of_a_gradient_has_the_equations_of_the_function_in_jax(kind: str) -> None:
    op, function = make("derive" if kind == "jvp" else kind)
    if kind == "jvp":
        op = custom_op("remat::op", kernel)
        op.register_jvp(lambda primals, tangents: jax.jvp(kernel, primals, tangents))
        function = jax.custom_jvp(kernel)
        function.defjvp(lambda primals, tangents: jax.jvp(kernel, primals, tangents))

    def read(function: Any) -> list[Any]:
        closed = jax.make_jaxpr(jax.grad(lambda x, w: function(x, w).sum(), (0, 1)))(X, W)
        return [equation for equation in walk(closed.jaxpr) if equation.primitive.name != "jit"]

    equations = read(op)
    names = [equation.primitive.name for equation in equations]
    expected = [equation.primitive.name for equation in read(function)]
    if not REMAT3:  # by which custom_vjp is one equation
        shared = sorted(name for name in names if name not in OWN)  # the order of calls is JAX's
        assert shared == sorted(name for name in expected if name not in OWN)
    # A later derivative of the jaxpr must not differentiate the kernel, and a policy may look for the name.
    assert names.count("stop_gradient") == 2 * (kind == "formula")
    rules = [equation.params for equation in equations if equation.primitive.name == "remat::op"]
    assert [{name: str(value) for name, value in params.items()} for params in rules] == [
        {"attached": "rules of remat::op"}
    ] * (kind != "derive")


def walk(jaxpr: Any) -> Iterator[Any]:
    """Lists the equations of a jaxpr, those of the functions that it calls after each call."""
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive.name == "jit":
            yield from walk(equation.params["jaxpr"].jaxpr)
