"""A registered forward runs once: as often as that of a ``custom_vjp``, in every transformation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.errors import (
    ArgumentValueError,
    DimensionError,
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    ResultError,
)
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry

X, W = jnp.linspace(-1.0, 1.0, 5), jnp.float32(0.7)
BATCH = jnp.stack([X, 2 * X, X - 1])
LOOP = re.compile(r" (?:while|custom-call)\(")

pytestmark = pytest.mark.spec("D.29")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def loop(x: Any, w: Any) -> tuple[Any, Any]:
    """A recurrence, and its carries, which the backward reads."""

    def step(carry: Any, value: Any) -> tuple[Any, Any]:
        carry = jnp.tanh(carry * w + value)
        return carry, carry

    return jax.lax.scan(step, jnp.zeros((), x.dtype), x)


def on_host(x: Any, w: Any) -> tuple[Any, Any]:
    """The same in a callback, which has the carries as its second result."""

    def run(x: Any, w: Any) -> tuple[Any, Any]:
        carries = [np.zeros((), np.float32)]
        for value in x:
            carries.append(np.tanh(carries[-1] * w + value))
        return carries[-1].astype(np.float32), np.array(carries[1:], np.float32)

    shapes = jax.ShapeDtypeStruct((), x.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(run, shapes, x, w, vmap_method="sequential")


def pull(saved: Any, grad: Any) -> tuple[Any, Any]:
    x, w, carries = saved
    before = jnp.concatenate([jnp.zeros(1, x.dtype), carries[:-1]])

    def step(cotangent: Any, values: Any) -> Any:
        after, first = values
        slope = cotangent * (1 - after * after)
        return slope * w, (slope, slope * first)

    _, (by_x, by_w) = jax.lax.scan(step, grad, (carries, before), reverse=True)
    return by_x, by_w.sum()


def make(run: Callable[..., Any] = loop) -> CustomOpDef:
    @custom_op("fwd::recur")
    def recur(x: jax.Array, w: jax.Array) -> jax.Array:
        return run(x, w)[0]

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        last, carries = run(x, w)
        ctx.save_for_backward(x, w, carries)
        return last

    recur.register_autograd(lambda ctx, g: pull(ctx.saved_tensors, g), forward=forward)
    return recur


def make_by_hand(run: Callable[..., Any] = loop) -> Any:
    by_hand = jax.custom_vjp(lambda x, w: run(x, w)[0])

    def forward(x: Any, w: Any) -> Any:
        last, carries = run(x, w)
        return last, (x, w, carries)

    by_hand.defvjp(forward, pull)
    return by_hand


def make_derived(*, compiled: bool | None = None) -> CustomOpDef:
    @custom_op("fwd::derived", autograd="derive", compile=compiled)
    def derived(x: jax.Array, w: jax.Array) -> jax.Array:
        return loop(x, w)[0]

    return derived


FIRST: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "grad": (lambda op: jax.grad(op, (0, 1)), (X, W)),
    "vmap of grad": (lambda op: jax.vmap(jax.grad(op, (0, 1)), (0, None)), (BATCH, W)),
    "grad of vmap": (
        lambda op: jax.grad(lambda x, w: jax.vmap(op, (0, None))(x, w).sum(), (0, 1)),
        (BATCH, W),
    ),
    "checkpoint": (lambda op: jax.grad(jax.checkpoint(op), (0, 1)), (X, W)),
    "a part": (lambda op: jax.grad(op, 1), (X, W)),
    "value and grad": (lambda op: jax.value_and_grad(op, (0, 1)), (X, W)),
}
HIGHER: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "grad of grad": (lambda op: jax.grad(lambda x, w: jax.grad(op, 1)(x, w), (0, 1)), (X, W)),
    "three times": (lambda op: jax.grad(jax.grad(jax.grad(op, 1), 1), 1), (X, W)),
}


def compare(op: Any, other: Any, cell: tuple[Callable[[Any], Any], tuple[Any, ...]]) -> None:
    """Compares the values of two functions, and the loops and calls in their programs."""
    program, arguments = cell
    counts = [
        len(LOOP.findall(jax.jit(program(each)).lower(*arguments).compile().as_text()))
        for each in (op, other)
    ]
    assert counts[0] == counts[1]
    pairs = zip(
        jax.tree.leaves(program(op)(*arguments)), jax.tree.leaves(program(other)(*arguments)), strict=True
    )
    for one, expected in pairs:
        np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)


class TestCounts:
    @pytest.mark.parametrize("name", [*FIRST, *HIGHER])
    def test_a_loop_runs_as_often_as_in_a_custom_vjp(self, name: str) -> None:
        compare(make(), make_by_hand(), {**FIRST, **HIGHER}[name])

    @pytest.mark.matrix(3)
    @pytest.mark.parametrize("name", FIRST)
    def test_a_callback_runs_as_often_as_in_a_custom_vjp(self, name: str) -> None:
        compare(make(on_host), make_by_hand(on_host), FIRST[name])

    @pytest.mark.parametrize("compiled", [None, False])
    @pytest.mark.parametrize("name", [*FIRST, *HIGHER])
    def test_a_derived_kernel_runs_as_often_as_the_function_itself(
        self, name: str, compiled: bool | None
    ) -> None:
        compare(make_derived(compiled=compiled), lambda x, w: loop(x, w)[0], {**FIRST, **HIGHER}[name])


class TestTape:
    @pytest.mark.parametrize("compiled", [None, False])
    def test_a_program_with_a_tape_contains_the_loops_of_the_function_itself(
        self, compiled: bool | None
    ) -> None:
        op = make_derived(compiled=compiled)

        def on_tape(x: jax.Array, w: jax.Array) -> Any:
            leaves = [oplib.Tensor.from_array(value, requires_grad=True) for value in (x, w)]
            result = op(*leaves)
            result.backward()
            return result.detach().array, tuple(leaf.grad.array for leaf in leaves)

        def in_jax(x: jax.Array, w: jax.Array) -> Any:
            return jax.value_and_grad(lambda x, w: loop(x, w)[0], (0, 1))(x, w)

        compare(op, in_jax, (lambda each: on_tape if each is op else each, (X, W)))

    @pytest.mark.parametrize("derived", [False, True], ids=["forward", "derived"])
    def test_the_backward_contains_one_loop(self, derived: bool) -> None:
        op = make_derived() if derived else make()
        x, w = (oplib.Tensor.from_array(value, requires_grad=True) for value in (X, W))
        node: Any = op(x, w).grad_fn
        residuals = node.saved[: len(node.plan.sources)]
        program = node.plan.backward((True,)).run.lower(*residuals, jnp.float32(1)).compile()
        assert len(LOOP.findall(program.as_text())) == 1

    def test_a_forward_in_a_callback_runs_once_and_not_again_under_create_graph(self) -> None:
        runs: list[int] = []

        def forward(ctx: Any, x: Any) -> Any:
            def run(x: Any) -> Any:
                runs.append(1)
                return np.sin(x), np.cos(x)

            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            sine, ctx.cosine = jax.pure_callback(run, (shape, shape), x, vmap_method="sequential")
            return sine

        @custom_op("fwd::sine")
        def sine(x: jax.Array) -> jax.Array:
            raise AssertionError

        sine.register_fake(lambda x: x)
        sine.register_autograd(lambda ctx, g: g * ctx.cosine, forward=forward)
        sine.register_kernel("cpu", lambda x: jnp.sin(x))
        x = oplib.Tensor.from_array(X, requires_grad=True)
        y = sine(x)
        np.testing.assert_allclose(y.array, np.sin(X), rtol=1e-6)
        y.sum().backward()
        np.testing.assert_allclose(x.grad.array, np.cos(X), rtol=1e-6)
        assert len(runs) == 1

    @pytest.mark.parametrize("derived", [False, True], ids=["forward", "derived"])
    def test_second_derivatives_are_those_of_jax(self, derived: bool) -> None:
        op = make_derived() if derived else make()
        x, w = (oplib.Tensor.from_array(value, requires_grad=True) for value in (X, W))
        (by_w,) = oplib.autograd.grad(op(x, w), [w], create_graph=True)
        by_w.backward()
        expected = jax.grad(lambda x, w: jax.grad(lambda w: loop(x, w)[0])(w), (0, 1))(X, W)
        np.testing.assert_allclose(x.grad.array, expected[0], rtol=1e-5)
        np.testing.assert_allclose(w.grad.array, expected[1], rtol=1e-5)

    def test_forward_mode_goes_through_the_formula(self) -> None:
        with forward_ad.dual_level():
            x = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.ones(5))
            tangent = forward_ad.unpack_dual(make()(x, oplib.Tensor.from_array(W))).tangent
        expected = jax.jvp(lambda x: loop(x, W)[0], (X,), (jnp.ones(5),))[1]
        np.testing.assert_allclose(tangent.array, expected, rtol=1e-5)

    @pytest.mark.parametrize("kind", ["array", "plain", "tensor", "host"])
    def test_every_kind_of_kernel_can_have_one(self, kind: str) -> None:
        hint = {"tensor": oplib.Tensor, "host": np.ndarray}.get(kind, jax.Array)
        seen: list[str] = []

        def kernel(x: Any) -> Any:
            seen.append("kernel")
            return x * x

        def forward(ctx: Any, x: Any) -> Any:
            seen.append("forward")
            ctx.save_for_backward(2 * x)
            return x * x

        kernel.__annotations__ = {"x": hint, "return": hint}
        options = {"compile": False} if kind == "plain" else {}
        op = custom_op("fwd::square", kernel, schema="(Tensor x) -> Tensor", **options)
        op.register_fake(lambda x: x)
        op.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0], forward=forward)
        x = oplib.Tensor.from_array(X, requires_grad=True)
        op(x).sum().backward()
        np.testing.assert_allclose(x.grad.array, 2 * X)
        assert "kernel" not in seen or kind != "tensor"
        assert "forward" in seen
        np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(X), 2 * X)
        np.testing.assert_allclose(jax.jit(jax.grad(lambda x: op(x).sum()))(X), 2 * X)
        count = len(seen)
        np.testing.assert_allclose(op(x.detach()).array, X * X)
        assert "forward" not in seen[count:]

    def test_results_have_the_rules_of_the_op_in_a_transformation_of_a_recorded_call(self) -> None:
        op = make()

        def step(x: Any, w: Any) -> Any:
            leaf = oplib.Tensor.from_array(w, requires_grad=True)
            op(oplib.Tensor.from_array(x), leaf).backward()
            return leaf.grad.array

        expected = jax.grad(lambda w: loop(X, w)[0])(W)
        np.testing.assert_allclose(jax.jit(step)(X, W), expected, rtol=1e-5)
        mapped = jax.vmap(step, (0, None))(BATCH, W)
        np.testing.assert_allclose(mapped[0], expected, rtol=1e-5)
        np.testing.assert_allclose(
            jax.grad(step, 1)(X, W), jax.grad(jax.grad(lambda w: loop(X, w)[0]))(W), rtol=1e-5
        )


class TestRules:
    def test_every_order_uses_the_formula_and_not_the_derivative_of_the_forward(self) -> None:
        @custom_op("fwd::marked")
        def marked(x: jax.Array) -> jax.Array:
            return jnp.sin(x)

        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return jnp.sin(x)

        marked.register_autograd(lambda ctx, g: 7 * g * jnp.cos(ctx.saved_tensors[0]), forward=forward)
        np.testing.assert_allclose(jax.grad(marked)(0.5), 7 * np.cos(0.5), rtol=1e-6)
        product = jax.grad(lambda x: marked(x) * jax.grad(marked)(x))
        expected = 49 * np.cos(0.5) ** 2 - 7 * np.sin(0.5) ** 2
        np.testing.assert_allclose(product(0.5), expected, rtol=1e-6)

    def test_several_results_static_values_and_lists(self) -> None:
        @custom_op("fwd::several")
        def several(xs: list[jax.Array], n: int = 2) -> tuple[jax.Array, jax.Array]:
            return xs[0] ** n * xs[1], xs[1].argmax()

        def forward(ctx: Any, xs: Any, n: int = 2) -> Any:
            assert ctx.needs_input_grad[0] in ([True, True], [True, False])
            ctx.n, ctx.power = n, xs[0] ** (n - 1)
            ctx.save_for_backward(*xs)
            return ctx.power * xs[0] * xs[1], xs[1].argmax()

        def backward(ctx: Any, grad: Any, _: Any) -> Any:
            x, y = ctx.saved_tensors
            return [grad * ctx.n * ctx.power * y, grad * ctx.power * x], None

        several.register_autograd(backward, forward=forward)
        for n in (2, 3):

            def run(x: Any, y: Any, n: int = n) -> Any:
                return several([x, y], n)[0].sum()

            def plain(x: Any, y: Any, n: int = n) -> Any:
                return (x**n * y).sum()

            for differentiate in (
                lambda f: jax.grad(f, (0, 1)),
                lambda f: jax.grad(lambda x, y: jax.grad(f)(x, y).sum(), (0, 1)),
                lambda f: jax.grad(f),
            ):
                found, expected = differentiate(run)(X, 2 * X), differentiate(plain)(X, 2 * X)
                jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)


class TestRefusals:
    def test_forward_and_setup_context_exclude_each_other(self) -> None:
        with pytest.raises(RegistrationValueError, match="setup_context and forward exclude each other"):
            make().register_autograd(
                lambda ctx, g: g, forward=lambda ctx, x, w: x, setup_context=lambda ctx, inputs, output: None
            )

    def test_one_that_does_not_take_the_arguments_is_refused(self) -> None:
        with pytest.raises(
            RegistrationTypeError, match=r"fwd::recur: forward does not accept .*\(ctx\) and the"
        ):
            make().register_autograd(lambda ctx, g: g, forward=lambda ctx, x: x)

    def test_one_that_cannot_be_called_is_refused(self) -> None:
        with pytest.raises(RegistrationTypeError, match="forward is required to be a callable"):
            make().register_autograd(lambda ctx, g: g, forward=3)  # pyright: ignore[reportArgumentType]

    def test_one_on_the_host_is_refused(self) -> None:
        def forward(ctx: Any, x: np.ndarray, w: np.ndarray) -> np.ndarray:
            return x

        with pytest.raises(RegistrationError, match=r"fwd::recur: forward is annotated numpy.*pure_callback"):
            make().register_autograd(lambda ctx, g: g, forward=forward)

    def test_results_of_another_shape_than_the_kernels_are_refused(self) -> None:
        op = make()
        op.register_autograd(lambda ctx, g: (g, g), forward=lambda ctx, x, w: x * w)
        with pytest.raises(ResultError, match=r"fwd::recur: forward and the kernel return different results"):
            jax.grad(lambda x: op(x, W).sum())(X)

    def test_a_result_too_many_is_refused(self) -> None:
        op = make()
        op.register_autograd(lambda ctx, g: (g, g), forward=lambda ctx, x, w: loop(x, w))
        with pytest.raises(ResultError, match="fwd::recur"):
            jax.grad(lambda x: op(x, W).sum())(X)


def make_sine(annotation: Any, forward: Any, formula: Any) -> oplib.Tensor:
    """Registers an op, and returns its gradient."""

    def sine(x):
        return x.sin() if annotation is oplib.Tensor else jnp.sin(x)

    sine.__annotations__ = {"x": annotation, "return": annotation}
    op = custom_op("forward::words")(sine)
    op.register_autograd(formula, forward=forward)
    x = oplib.ones(3, requires_grad=True)
    op(x).sum().backward()
    return x.grad


def use_saved(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * x


@pytest.mark.parametrize("annotation", [jax.Array, oplib.Tensor])
@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda ctx, x: None, r"Unable to cast None.* A function without a return statement returns None"),
        (
            lambda ctx, x: (x, (x,)),
            r"Unable to cast \(f32\[3\], .* save other values by ctx\.save_for_backward",
        ),
        (
            lambda ctx, x: [x, x, x],
            r"Unable to cast \[f32\[3\], .* save other values by ctx\.save_for_backward",
        ),
    ],
)
def test_wrong_results_of_a_forward_are_not_blamed_on_the_kernel(annotation, forward, text):
    with pytest.raises(ResultError, match=rf"forward::words: the registered forward's result .*{text}"):
        make_sine(annotation, forward, use_saved)


def test_a_forward_on_tensors_that_returns_an_array_is_named():
    with pytest.raises(ResultError, match="the registered forward works on Tensors and returned an array"):
        make_sine(oplib.Tensor, lambda ctx, x: x.array, use_saved)


def test_an_attribute_that_a_forward_did_not_set_is_one_of_the_forward():
    def forward(ctx: Any, x: Any) -> Any:
        ctx.other = 2
        return x

    with pytest.raises(
        AttributeError, match=r"ctx\.scale .*Its forward has set \['other'\]\. Set it in forward\."
    ):
        make_sine(jax.Array, forward, lambda ctx, g: g * ctx.scale)
    with pytest.raises(AttributeError, match=r"ctx\.scale .*has neither a setup_context nor a forward"):
        make_sine(jax.Array, None, lambda ctx, g: g * ctx.scale)


@pytest.mark.parametrize(("read", "near"), [("save_tensors", "saved_tensors"), ("othr", "other")])
def test_the_nearest_name_of_a_ctx_is_told(read, near):
    def forward(ctx: Any, x: Any) -> Any:
        ctx.other = 2
        return x

    with pytest.raises(
        AttributeError, match=rf"ctx\.{read} is .*set\. The nearest name is ctx\.{near}\. Its"
    ):
        make_sine(jax.Array, forward, lambda ctx, g: g * getattr(ctx, read))


@pytest.mark.parametrize("annotation", [jax.Array, oplib.Tensor])
@pytest.mark.parametrize("formula", [use_saved, lambda ctx, g: g * ctx.saved_tensors[0]])
@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (None, "has neither a setup_context nor a forward. Call ctx.save_for_backward in a setup_context"),
        (lambda ctx, x: x * 1, "Its forward has saved no tensors. Call ctx.save_for_backward in forward."),
    ],
)
def test_a_formula_that_reads_what_nothing_saved_says_so(annotation, formula, forward, text):
    with pytest.raises((ArgumentValueError, DimensionError), match=r"saved_tensors is empty") as caught:
        make_sine(annotation, forward, formula)
    assert text in str(caught.value)
    assert isinstance(caught.value, (ValueError, IndexError))


def test_other_errors_of_a_formula_get_no_such_note():
    def fail(ctx: Any, g: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        make_sine(jax.Array, None, fail)
    assert not any("saved_tensors" in note for note in caught.value.__notes__)
