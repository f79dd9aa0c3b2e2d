"""The value that a jvp rule returns is the result of a call that is differentiated by the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import oplib
from oplib.autograd import forward_ad
from oplib.errors import OpCheckError, ResultError
from oplib.library import CustomOpDef, custom_op, opcheck
from oplib.library.registration.registry import registry

X = jnp.array([0.3, -0.7, 1.1])
COS = np.cos(X)

pytestmark = pytest.mark.spec("D.35")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


@pytest.fixture
def asked() -> list[str]:
    return []


def ask_host(asked: list[str], x: Any) -> tuple[Any, Any]:
    """Asks the host for sine and cosine at once."""

    def answer(x: Any) -> Any:
        asked.append("both")
        return np.sin(x), np.cos(x)

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(answer, (shape, shape), x, vmap_method="expand_dims")


def make(kind: str, asked: list[str]) -> CustomOpDef:
    """A sine whose kernel and whose rule ask the host."""

    def on_arrays(x: jax.Array) -> jax.Array:
        return jax.pure_callback(run_kernel, jax.typeof(x), x, vmap_method="expand_dims")

    def on_host(x: np.ndarray) -> np.ndarray:
        return run_kernel(x)

    def run_kernel(x: Any) -> Any:
        asked.append("kernel")
        return np.sin(x)

    def push(primals: Any, tangents: Any) -> Any:
        sine, cosine = ask_host(asked, primals[0])
        return sine, cosine * tangents[0]

    name = None if kind == "local" else f"ruled::{kind}"
    options: dict[str, Any] = {"compile": False} if kind == "plain" else {}
    kernel = on_host if kind == "host" else on_arrays
    op = custom_op(kernel, **options) if name is None else custom_op(name, kernel, **options)
    op.register_fake(lambda x: x)
    op.register_jvp(push)
    return op


def on_tape(op: CustomOpDef) -> Any:
    x = oplib.Tensor.from_array(X, requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None
    return x.grad.array


def in_dual_level(op: CustomOpDef) -> Any:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.ones(3))
        tangent = forward_ad.unpack_dual(op(dual)).tangent
        assert tangent is not None
        return tangent.array


WAYS: dict[str, Callable[[CustomOpDef], Any]] = {
    "grad": lambda op: jax.grad(lambda x: op(x).sum())(X),
    "jit of grad": lambda op: jax.jit(jax.grad(lambda x: op(x).sum()))(X),
    "jvp": lambda op: jax.jvp(op, (X,), (jnp.ones(3),))[1],
    "jit of jvp": lambda op: jax.jit(lambda x: jax.jvp(op, (x,), (jnp.ones(3),))[1])(X),
    "linearize": lambda op: jax.linearize(op, X)[1](jnp.ones(3)),
    "vmap of grad": lambda op: jax.vmap(jax.grad(op))(X),
    "grad of vmap": lambda op: jax.grad(lambda x: jax.vmap(op)(x).sum())(X),
    "grad of vmap of vmap": lambda op: jax.grad(lambda x: jax.vmap(jax.vmap(op))(x[None]).sum())(X),
    "grad in scan": lambda op: jax.lax.scan(lambda c, _: (c, jax.grad(lambda x: op(x).sum())(X)), 0, None, 1)[
        1
    ][0],
    "tape": on_tape,
    "dual level": in_dual_level,
}


@pytest.mark.parametrize("kind", ["array", "plain", "host", "local"])
@pytest.mark.parametrize("way", WAYS)
def test_the_host_is_asked_once(way: str, kind: str, asked: list[str]) -> None:
    np.testing.assert_allclose(WAYS[way](make(kind, asked)), COS, rtol=1e-6)
    assert asked == ["both"]


def test_a_kernel_that_closes_over_a_tracer_asks_the_host_once(asked: list[str]) -> None:
    def differentiate(scale: Any) -> Any:
        @custom_op
        def scaled(x: jax.Array) -> jax.Array:
            return jnp.sin(x) * scale

        @scaled.register_jvp
        def push(primals: Any, tangents: Any) -> Any:
            sine, cosine = ask_host(asked, primals[0])
            return sine * scale, cosine * scale * tangents[0]

        return jax.value_and_grad(lambda x: scaled(x).sum())(X)

    value, gradient = jax.jit(differentiate)(2.0)
    np.testing.assert_allclose(value, 2 * np.sin(X).sum(), rtol=1e-6)
    np.testing.assert_allclose(gradient, 2 * COS, rtol=1e-6)
    assert asked == ["both"]


def count_loops(jaxpr: Any) -> int:
    inner = [each for eqn in jaxpr.eqns for each in jaxprs_in_params(eqn.params)]
    return sum(eqn.primitive.name in ("while", "scan") for eqn in jaxpr.eqns) + sum(map(count_loops, inner))


def make_loop() -> CustomOpDef:
    """The root of y + exp(y) = x, by Newton's method; the rule gets the slope from the same loop."""

    def iterate(x: Any) -> tuple[Any, Any]:
        def step(state: Any) -> Any:
            count, y, _ = state
            slope = 1 / (1 + jnp.exp(y))
            return count + 1, y - slope * (y + jnp.exp(y) - x), slope

        return jax.lax.while_loop(lambda state: state[0] < 30, step, (0, x * 0.0, x * 0.0))[1:]

    @custom_op("ruled::root")
    def root(x: jax.Array) -> jax.Array:
        return iterate(x)[0]

    @root.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        y, slope = iterate(primals[0])
        return y, slope * tangents[0]

    return root


class TestOneLoop:
    @pytest.mark.parametrize("way", ["grad", "jvp", "linearize", "vmap of grad", "grad of vmap"])
    def test_value_and_slope_come_from_one_loop(self, way: str) -> None:
        op = make_loop()

        def run(x: Any) -> Any:
            return {
                "grad": lambda: jax.value_and_grad(lambda x: op(x).sum())(x),
                "jvp": lambda: jax.jvp(op, (x,), (x,)),
                "linearize": lambda: jax.linearize(op, x)[1](x),
                "vmap of grad": lambda: jax.vmap(jax.value_and_grad(op))(x),
                "grad of vmap": lambda: jax.value_and_grad(lambda x: jax.vmap(op)(x).sum())(x),
            }[way]()

        assert count_loops(jax.make_jaxpr(run)(X).jaxpr) == 1

    def test_a_recorded_call_and_its_backward_run_it_once(self) -> None:
        op = make_loop()

        @oplib.jit
        def step(x: oplib.Tensor) -> Any:
            (gradient,) = oplib.autograd.grad(op(x).sum(), [x])
            return gradient

        x = oplib.Tensor.from_array(X, requires_grad=True)
        text = step.lower(x).compile().as_text()
        assert text.count(" while(") == 1
        y = np.asarray(op(X))
        np.testing.assert_allclose(step(x).array, 1 / (1 + np.exp(y)), rtol=1e-5)

    def test_second_derivatives_are_those_of_the_root(self) -> None:
        op = make_loop()
        y = np.asarray(op(X))
        slope = 1 / (1 + np.exp(y))

        def push_twice(x: Any) -> Any:
            return jax.jvp(lambda x: jax.jvp(op, (x,), (jnp.ones(3),))[1], (x,), (jnp.ones(3),))[1]

        np.testing.assert_allclose(push_twice(X), -np.exp(y) * slope**3, rtol=1e-4)


def make_marked(**options: Any) -> CustomOpDef:
    """A sine whose rule adds 100 to the value, and whose tangent is seven times the direction."""

    @custom_op("ruled::marked", **options)
    def marked(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    marked.register_jvp(lambda p, t: (jnp.sin(p[0]) + 100, 7 * t[0]))
    return marked


MARKED = np.sin(X) + 100


class TestValue:
    @pytest.mark.parametrize("options", [{}, {"compile": False}], ids=["compiled", "plain"])
    def test_it_is_the_result_wherever_the_rule_differentiates(self, options: Any) -> None:
        op = make_marked(**options)
        value = lambda x: op(x).sum()  # noqa: E731
        for found in (
            jax.jvp(op, (X,), (X,))[0],
            jax.vjp(op, X)[0],
            jax.linearize(op, X)[0],
            jax.vmap(jax.value_and_grad(op))(X)[0],
            jax.jvp(jax.vmap(op), (X,), (X,))[0],
            jax.jit(lambda x: jax.jvp(op, (x,), (x,))[0])(X),
            op(oplib.Tensor.from_array(X, requires_grad=True)).array,
            jax.grad(jax.checkpoint(lambda x: (op(x) ** 2).sum() / 2))(X) / 7,
        ):
            np.testing.assert_allclose(found, MARKED, rtol=1e-6)
        np.testing.assert_allclose(jax.value_and_grad(value)(X)[0], MARKED.sum(), rtol=1e-6)

    def test_it_is_the_result_in_a_dual_level(self) -> None:
        op = make_marked()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.ones(3))
            primal, tangent = forward_ad.unpack_dual(op(dual))
        np.testing.assert_allclose(primal.array, MARKED, rtol=1e-6)
        assert tangent is not None
        np.testing.assert_allclose(tangent.array, [7, 7, 7])

    def test_the_kernel_gives_it_elsewhere(self) -> None:
        op = make_marked()
        for found in (op(X), jax.jit(op)(X), jax.vmap(op)(X), op(oplib.Tensor.from_array(X)).array):
            np.testing.assert_allclose(found, np.sin(X), rtol=1e-6)

    def test_the_rule_holds_at_every_order(self) -> None:
        op = make_marked()

        def value(x: Any) -> Any:
            return jax.jvp(op, (x,), (X,))[0]

        np.testing.assert_allclose(jax.jvp(value, (X,), (jnp.ones(3),))[1], [7, 7, 7])
        np.testing.assert_allclose(jax.grad(lambda x: value(x).sum())(X), [7, 7, 7])

    def test_beside_a_formula_the_kernel_gives_it(self) -> None:
        op = make_marked()
        op.register_autograd(lambda ctx, g: 5 * g)
        assert jax.vjp(op, X)[0] == pytest.approx(np.sin(X))
        value, tangent = jax.jvp(op, (X,), (jnp.ones(3),))
        np.testing.assert_allclose(value, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(tangent, [7, 7, 7])

    def test_a_rule_that_is_not_linear_gives_it_too(self) -> None:
        op = make_marked()
        op.register_jvp(lambda p, t: (jnp.sin(p[0]) + 100, t[0] * t[0]), nonlinear=True)
        value, tangent = jax.jvp(op, (X,), (X,))
        np.testing.assert_allclose(value, MARKED, rtol=1e-6)
        np.testing.assert_allclose(tangent, X * X)

    def test_several_results_keep_their_kinds(self) -> None:
        @custom_op("ruled::pair")
        def pair(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            return x * 2, jnp.argmax(x)

        pair.register_jvp(lambda p, t: ((p[0] * 2, jnp.argmax(p[0]) + 10), (2 * t[0], None)))
        (doubled, place), (tangent, _) = jax.jvp(pair, (X,), (X,))
        np.testing.assert_allclose(doubled, 2 * X)
        assert place == 12
        np.testing.assert_allclose(tangent, 2 * X)
        x = oplib.Tensor.from_array(X, requires_grad=True)
        doubled, place = pair(x)
        assert place.item() == 12
        doubled.sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2, 2, 2]

    def test_opcheck_finds_another_value(self) -> None:
        with pytest.raises(OpCheckError, match="different by the jvp rule and by the kernel"):
            opcheck(make_marked(), (X,), test_utils="test_forward_mode")


WRONG = {
    "shape": (lambda x: x[:2], r"\[f32\[2\]\].*\[f32\[3\]\]"),
    "dtype": (lambda x: x.astype(jnp.bfloat16), r"\[bf16\[3\]\].*\[f32\[3\]\]"),
}


class TestRefusals:
    @pytest.mark.parametrize("options", [{}, {"compile": False}], ids=["compiled", "plain"])
    @pytest.mark.parametrize("wrong", WRONG)
    @pytest.mark.parametrize("way", ["grad", "jvp", "vmap of grad", "grad of vmap", "tape", "dual level"])
    def test_another_shape_or_dtype_names_op_rule_and_place(
        self, way: str, wrong: str, options: dict[str, Any]
    ) -> None:
        change, text = WRONG[wrong]
        op = make_marked(**options)
        if way.startswith(("vmap", "grad of")):
            text = r"Got \[b?f\w+(\[\d\])?\], and from the kernel \[f32"

        def push(primals: Any, tangents: Any) -> Any:
            value = change(jnp.atleast_1d(jnp.sin(primals[0])))
            return value, value * tangents[0][:2] if wrong == "shape" and tangents[0].ndim else value

        op.register_jvp(push, nonlinear=True)
        if way in ("grad", "vmap of grad", "grad of vmap", "tape"):
            op.register_jvp(lambda p, t: (change(jnp.atleast_1d(p[0] * 1)), change(jnp.atleast_1d(t[0]))))
        with pytest.raises(
            ResultError,
            match=rf"ruled::marked: the jvp rule at .*test_rule_call.py:\d+ and the kernel return different "
            rf"results. {text if text.startswith('Got') else 'Got ' + text}",
        ):
            WAYS[way](op)

    def test_another_count_is_refused(self) -> None:
        op = make_marked()
        op.register_jvp(lambda p, t: ((p[0], p[0]), (t[0], t[0])))
        with pytest.raises(ResultError, match=r"ruled::marked: the jvp rule's result has the wrong type"):
            jax.grad(lambda x: op(x).sum())(X)


def test_a_kernel_that_reads_values_is_asked_for_its_shapes_once() -> None:
    runs: list[Any] = []

    @custom_op("rules::signed")
    def signed(x: oplib.Tensor) -> oplib.Tensor:
        runs.append(x)
        return x * 2 if x.sum().item() > 0 else x * 3

    signed.register_jvp(lambda p, t: (p[0] * (2 + (p[0].sum() < 0)), t[0] * (2 + (p[0].sum() < 0))))
    for sign, slope in ((1.0, 2.0), (-1.0, 3.0)):
        x = oplib.tensor([sign, sign], requires_grad=True)
        signed(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [slope, slope]
        assert len(runs) == 1  # in vain: the rule alone computes
