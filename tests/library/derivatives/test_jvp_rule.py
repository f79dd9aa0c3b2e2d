"""jvp rules get zeros as ``jax.custom_jvp`` gives them, and JAX transposes them as it does those."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

import oplib
from oplib.autograd import forward_ad
from oplib.errors import AutogradError, MissingRuleError, ResultError
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry

X, W = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.5, 2.0, -1.0])
CALLS = jnp.array(0)

pytestmark = pytest.mark.spec("D.28", "D.47")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def make(rule: Callable[..., Any], hint: Any = jax.Array, **options: Any) -> CustomOpDef:
    """Registers ``sin(x) * w`` with a jvp rule; ``options`` are those of ``register_jvp``."""

    def kernel(x: Any, w: Any) -> Any:
        return (oplib.sin(x) if hint is oplib.Tensor else jnp.sin(x)) * w

    kernel.__annotations__ = {"x": hint, "w": hint, "return": hint}
    op = custom_op("jvps::bend", kernel, schema="(Tensor x, Tensor w) -> Tensor")
    op.register_jvp(rule, **options)
    return op


def natural(primals: Any, tangents: Any) -> Any:
    """The rule as one writes it for ``jax.custom_jvp``."""
    (x, w), (dx, dw) = primals, tangents
    return jnp.sin(x) * w, jnp.cos(x) * w * dx + jnp.sin(x) * dw


by_hand = jax.custom_jvp(lambda x, w: jnp.sin(x) * w)
by_hand.defjvp(natural)


class TestZeros:
    def test_the_rule_of_a_custom_jvp_runs_unchanged(self) -> None:
        op = make(natural)
        for function in (
            lambda f: jax.jvp(lambda x: f(x, W), (X,), (X,)),
            lambda f: jax.jvp(lambda w: f(X, w), (W,), (X,)),
            lambda f: jax.grad(lambda x: f(x, W).sum())(X),
            lambda f: jax.grad(lambda w: f(X, w).sum())(W),
            lambda f: jax.jit(jax.vmap(jax.grad(lambda x, w: f(x, w)), (0, None)))(X, W[0]),
            lambda f: jax.hessian(lambda w, x: f(x, w).sum(), argnums=1)(W, X),
        ):
            jax.tree.map(np.testing.assert_allclose, function(op), function(by_hand))

    def test_a_rule_may_call_jax_jvp_with_integers_among_the_primals(self) -> None:
        @custom_op("jvps::pick")
        def pick(x: jax.Array, index: jax.Array) -> jax.Array:
            return x[index] ** 2

        pick.register_jvp(lambda p, t: jax.jvp(lambda x, index: x[index] ** 2, p, t))
        np.testing.assert_allclose(jax.grad(pick)(X, jnp.array(1)), [0, -1.4, 0], rtol=1e-6)

    def test_an_argument_that_is_no_array_has_none(self) -> None:
        seen: list[Any] = []

        @custom_op("jvps::power")
        def power(x: jax.Array, n: int, bias: jax.Array | None = None) -> jax.Array:
            return x**n

        def push(primals: Any, tangents: Any) -> Any:
            seen.append(tangents[1:])
            x, n, _ = primals
            return x**n, n * x ** (n - 1) * tangents[0]

        power.register_jvp(push)
        np.testing.assert_allclose(jax.jvp(lambda x: power(x, 3), (X,), (X,))[1], 3 * X**3, rtol=1e-6)
        assert set(seen) == {(None, None)}

    def test_tensors_get_zeros_too(self) -> None:
        def push(primals: Any, tangents: Any) -> Any:
            (x, w), (dx, dw) = primals, tangents
            return oplib.sin(x) * w, oplib.cos(x) * w * dx + oplib.sin(x) * dw

        op = make(push, oplib.Tensor)
        with forward_ad.dual_level():
            x = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.ones(3))
            tangent = forward_ad.unpack_dual(op(x, oplib.Tensor.from_array(W))).tangent
        np.testing.assert_allclose(tangent.array, np.cos(X) * W, rtol=1e-6)

    def test_zeros_vary_over_the_mesh_axes_of_their_input(self) -> None:
        op = make(natural)
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
        spec = jax.sharding.PartitionSpec("i")
        grad = jax.grad(lambda x, w: op(x, w).sum())
        mapped = jax.shard_map(grad, mesh=mesh, in_specs=(spec, spec), out_specs=spec)
        np.testing.assert_allclose(mapped(X, W), np.cos(X) * W, rtol=1e-6)


def scaled_twice(tangent: Any) -> Any:
    return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * 2), (CALLS, tangent))[1]


def triple_on_the_host(tangent: Any) -> Any:
    shape = jax.ShapeDtypeStruct(tangent.shape, tangent.dtype)
    return jax.pure_callback(lambda t: 3 * np.asarray(t), shape, tangent, vmap_method="expand_dims")


linear_by_hand = jax.custom_jvp(lambda t: 2 * t)
linear_by_hand.defjvp(lambda p, t: (2 * p[0], 2 * t[0]))

LINEAR = {
    "a product": lambda x, t: t * jnp.cos(x),
    "a loop": lambda x, t: scaled_twice(t) * x,
    "a callback, which cannot be read": lambda x, t: triple_on_the_host(t),
    "a function with a rule of its own": lambda x, t: linear_by_hand(t) * x,
    "a checkpointed function": lambda x, t: jax.checkpoint(lambda v: v * jnp.sin(x))(t),
    "a derivative": lambda x, t: jax.jvp(jnp.cumprod, (x,), (t,))[1],
    "a derivative with a maximum": lambda x, t: jax.jvp(lambda v: v * v.max(), (x,), (t,))[1],
    "a derivative of sorting": lambda x, t: jax.jvp(jnp.sort, (x,), (t,))[1],
    "a derivative of a logarithmic sum": lambda x, t: jax.jvp(jax.lax.cumlogsumexp, (x,), (t,))[1],
    "a derivative of a solution": lambda x, t: jax.jvp(
        lambda v: jnp.linalg.solve(jnp.eye(3) + jnp.outer(v, v), v), (x,), (t,)
    )[1],
    "a derivative of a decomposition": lambda x, t: jax.jvp(
        lambda v: jnp.linalg.svd(jnp.outer(v, v) + jnp.diag(jnp.arange(3.0)))[1], (x,), (t,)
    )[1],
    "nothing": lambda x, t: jnp.zeros(3),
}
NOT_LINEAR = {
    "a square": lambda x, t: t * t,
    "a free term": lambda x, t: t + x,
    "a constant": lambda x, t: jnp.cos(x),
    "an absolute value": lambda x, t: jnp.abs(t),
    "a clipped tangent": lambda x, t: jnp.clip(t, -0.1, 0.1),
    "a mask by itself": lambda x, t: jnp.where(t > 0, t, 0),
    "a loop that squares": lambda x, t: jax.lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * c[1]), (CALLS, t)
    )[1],
    "a loop that ends by itself": lambda x, t: jax.lax.while_loop(lambda c: c.sum() < 2, lambda c: c * 2, t),
    "a function with a rule of its own": lambda x, t: jax.nn.silu(t),
    "a callback of a square": lambda x, t: triple_on_the_host(t * t),
}


scaling = Primitive("scaling_of_a_library")
scaling.def_impl(lambda t, by, **_: t * by)
scaling.def_abstract_eval(lambda t, by, **_: t)
mlir.register_lowering(scaling, mlir.lower_fun(lambda t, by, **_: t * by, multiple_results=False))
ad.primitive_jvps[scaling] = lambda p, t, **_: (scale(*p), scale(t[0], p[1]))
ad.primitive_transposes[scaling] = lambda g, t, by, **_: [scale(g, by), None]


def scale(tangent: Any, by: Any) -> Any:
    return scaling.bind(tangent, by, token=object())


def make_unary(tangent: Callable[..., Any], **options: Any) -> CustomOpDef:
    @custom_op("jvps::unary")
    def unary(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    unary.register_jvp(lambda p, t: (jnp.sin(p[0]), tangent(p[0], t[0])), **options)
    return unary


def make_by_hand(tangent: Callable[..., Any]) -> Any:
    """Returns the same function with the same rule, in JAX."""
    unary = jax.custom_jvp(jnp.sin)
    unary.defjvp(lambda p, t: (jnp.sin(p[0]), tangent(p[0], t[0])))
    return unary


MODES: dict[str, Callable[[Any], Any]] = {
    "forward": lambda f: jax.jvp(f, (X,), (W,))[1],
    "reverse": lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(X),
    "mapped": lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))(jnp.stack([X, W])),
}


def find_outcome(run: Callable[[Any], Any], function: Any) -> Any:
    """Returns the numbers of a run, or the type of its error."""
    try:
        return np.asarray(run(function))
    except Exception as error:  # noqa: BLE001  JAX says in many ways that it cannot transpose
        return type(error)


def pull_on_the_tape(function: Any) -> Any:
    x = oplib.Tensor.from_array(X).requires_grad_()
    function(x).sum().backward()
    assert x.grad is not None
    return x.grad.array


class TestTransposition:
    @pytest.mark.parametrize("name", LINEAR)
    def test_a_rule_gives_the_tangent(self, name: str) -> None:
        op = make_unary(LINEAR[name])
        expected = LINEAR[name](X, W)
        np.testing.assert_allclose(jax.jvp(op, (X,), (W,))[1], expected, rtol=1e-6)

    @pytest.mark.parametrize("name", [*LINEAR, *NOT_LINEAR])
    @pytest.mark.parametrize("mode", MODES)
    def test_a_rule_is_trusted_as_that_of_a_custom_jvp(self, name: str, mode: str) -> None:
        rule = (LINEAR | NOT_LINEAR)[name]
        found, due = (find_outcome(MODES[mode], make(rule)) for make in (make_unary, make_by_hand))
        assert isinstance(found, type) == isinstance(due, type), (found, due)
        if isinstance(due, type):
            assert issubclass(found, due)
        else:
            np.testing.assert_allclose(found, due, rtol=1e-5)

    @pytest.mark.parametrize("name", [*LINEAR, *NOT_LINEAR])
    def test_the_tape_transposes_as_jax_does(self, name: str) -> None:
        rule = (LINEAR | NOT_LINEAR)[name]
        found, due = (
            find_outcome(pull_on_the_tape, make_unary(rule)),
            find_outcome(MODES["reverse"], make_by_hand(rule)),
        )
        assert isinstance(found, type) == isinstance(due, type), (found, due)
        if not isinstance(due, type):
            np.testing.assert_allclose(found, due, rtol=1e-5)

    def test_a_primitive_of_another_library_may_be_in_a_rule(self) -> None:
        """Its parameters need not be equal in two traces, as those of lineax's solver are not."""
        op = make_unary(lambda x, t: scale(t, x.sum()))
        np.testing.assert_allclose(MODES["reverse"](op), np.full(3, X.sum()), rtol=1e-6)
        np.testing.assert_allclose(MODES["forward"](op), W * X.sum(), rtol=1e-6)

    def test_the_rule_runs_once_per_derivative(self) -> None:
        runs: list[Any] = []

        def tangent(x: Any, t: Any) -> Any:
            runs.append(x.shape)
            return t * x

        jax.jvp(make_unary(tangent), (X,), (W,))
        assert len(runs) == 1

    def test_nonlinear_permits_it_forwards_only(self) -> None:
        op = make_unary(NOT_LINEAR["a clipped tangent"], nonlinear=True)
        np.testing.assert_allclose(jax.jvp(op, (X,), (W,))[1], np.clip(W, -0.1, 0.1))
        with pytest.raises(MissingRuleError, match=r"jvps::unary: there is no reverse-mode rule.*nonlinear"):
            jax.grad(lambda x: op(x).sum())(X)
        result = op(oplib.ones(3, requires_grad=True))
        with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
            result.sum().backward()

    def test_a_backward_formula_beside_it_serves_reverse_mode(self) -> None:
        op = make_unary(NOT_LINEAR["a square"], nonlinear=True)
        op.register_autograd(lambda ctx, g: 7 * g)
        np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(X), [7, 7, 7])
        np.testing.assert_allclose(jax.jvp(op, (X,), (W,))[1], W * W)


class TestStructure:
    """The results of a rule have the structure of the kernel's results, static parts included."""

    @pytest.mark.parametrize(
        ("schema", "result", "given"),
        [
            ("(Tensor x) -> (Tensor, int)", lambda x: (jnp.sin(x), 2), lambda x: (jnp.sin(x), 3)),
            ("(Tensor x) -> Any", lambda x: {"a": jnp.sin(x)}, lambda x: {"b": jnp.sin(x)}),
            ("(Tensor x) -> Tensor[]", lambda x: [jnp.sin(x)], lambda x: [jnp.sin(x)] * 2),
        ],
        ids=["number", "tree", "list"],
    )
    def test_another_structure_than_that_of_the_kernel_is_refused(
        self, schema: str, result: Callable[..., Any], given: Callable[..., Any]
    ) -> None:
        def kernel(x: jax.Array) -> Any:
            return result(x)

        op = custom_op("jvps::arranged", kernel, schema=schema)
        op.register_jvp(lambda p, t: (result(*p), result(*t)))
        assert jax.tree.leaves(jax.jvp(op, (X,), (X,))[0])[0].tolist() == jnp.sin(X).tolist()
        op.register_jvp(lambda p, t: (given(*p), given(*t)))
        with pytest.raises(ResultError, match=r"the jvp rule at .* results of different structures"):
            jax.jvp(op, (X,), (X,))

    def test_a_kernel_that_reads_values_is_not_traced_for_its_structure(self) -> None:
        def kernel(x: jax.Array) -> Any:
            return {"a": jnp.sin(x)} if float(x.sum()) > 0 else {"b": x}

        op = custom_op("jvps::reading", kernel, compile=False)
        op.register_jvp(lambda p, t: ({"c": p[0]}, {"c": t[0]}))
        assert jax.jvp(op, (X,), (X,))[1]["c"].tolist() == X.tolist()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda value, tangent: tangent, r"must give two returns, \(outputs, tangents\). Got f32\[3\]"),
        (lambda value, tangent: (value, tangent, tangent), "must give two returns"),
        (lambda value, tangent: (value, tangent[0]), r"does not fit its output. Got f32\[\] for f32\[3\]"),
    ],
    ids=["no pair", "three values", "another shape"],
)
@pytest.mark.parametrize("mode", ["jvp", "grad", "tape"])
def test_an_answer_of_another_form_is_refused(mode: str, answer: Any, told: str) -> None:
    op = make(lambda primals, tangents: answer(jnp.sin(primals[0]) * primals[1], tangents[0]))

    def run() -> Any:
        if mode == "jvp":
            return jax.jvp(op, (X, W), (X, W))
        if mode == "grad":
            return jax.grad(lambda x: op(x, W).sum())(X)
        leaf = oplib.tensor([0.3, -0.7, 1.1], requires_grad=True)
        return op(leaf, oplib.Tensor.from_array(W)).sum().backward()

    with pytest.raises(AutogradError, match=rf"jvps::bend: the jvp rule .*{told}"):
        run()
