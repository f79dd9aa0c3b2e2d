"""Local ops: made without a name, alive as long as somebody holds them, and free to close over tracers."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import warnings
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import CapturedTracerError, MissingRuleError, TracingError
from oplib.library import CustomOpDef, Library, custom_op, opcheck, ops, register_autograd

X = jnp.array([0.5, 1.0])


def make_scaled(factor: Any) -> CustomOpDef:
    """A product whose gradient is three times the right one, so that its rule shows."""

    @oplib.custom_op
    def scaled(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * factor

    @scaled.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, g):
        return 3 * g * jnp.cos(ctx.saved_tensors[0]) * factor

    return scaled


def use(op: CustomOpDef) -> None:
    """Calls an op in every world."""
    op(X)
    jax.grad(lambda x: op(x).sum())(X)
    jax.jvp(op, (X,), (X,))
    jax.jit(jax.vmap(lambda x: op(x)))(X)
    x = oplib.ones(2, requires_grad=True)
    op(x).sum().backward()


def make_sine(held: Any) -> Any:
    return custom_op(lambda x: jnp.sin(x) * held, schema="(Tensor x) -> Tensor", compile=True)


def register_formula(op: Any, held: Any) -> None:
    op.register_autograd(
        lambda ctx, g: g * held * jnp.cos(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )


def register_forward(op: Any, held: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.cosine = jnp.cos(x)
        return jnp.sin(x) * held

    op.register_autograd(lambda ctx, g: g * held * ctx.cosine, forward=forward)


def register_jvp(op: Any, held: Any) -> None:
    op.register_jvp(
        lambda primals, tangents: (jnp.sin(*primals) * held, tangents[0] * held * jnp.cos(*primals))
    )


RULES = [register_formula, register_forward, register_jvp, lambda op, held: op.register_autograd("derive")]
DERIVATIVES: dict[str, Any] = {
    "grad": lambda op: jax.grad(lambda x: op(x).sum())(X),
    "jit of grad": lambda op: jax.jit(jax.grad(lambda x: op(x).sum()))(X),
    "vmap of grad": lambda op: jax.vmap(jax.grad(op))(X),
    "grad of grad": lambda op: jax.grad(lambda x: jax.grad(lambda x: op(x).sum())(x).sum())(X),
    "jvp": lambda op: jax.jvp(op, (X,), (X,)),
    "tape": lambda op: op(oplib.ones(2, requires_grad=True)).sum().backward(),
}


class TestUse:
    def test_it_has_all_rules_and_worlds(self) -> None:
        op, due = make_scaled(2.0), 6 * np.cos(X)
        np.testing.assert_allclose(op(X), 2 * np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(jax.grad(lambda x: op(x).sum())(X), due, rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(op, (X,), (jnp.ones(2),))[1], due, rtol=1e-6)
        np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(op)))(X), due, rtol=1e-6)
        x = oplib.tensor([0.5, 1.0], requires_grad=True)
        op(x).sum().backward()
        np.testing.assert_allclose(x.grad.array, due, rtol=1e-6)

    def test_opcheck_checks_it(self) -> None:
        op = custom_op(lambda x: x * 2, schema="(Tensor x) -> Tensor", compile=True, autograd="derive")
        assert set(opcheck(op, (X,)).values()) == {"SUCCESS"}

    def test_other_rules_are_registered_as_for_any_op(self) -> None:
        op = custom_op(lambda x: jnp.sin(x), schema="(Tensor x) -> Tensor", compile=True)
        op.register_jvp(lambda primals, tangents: (jnp.sin(primals[0]), 5 * tangents[0]))
        op.register_vmap(lambda info, in_dims, x: (jnp.sin(x) + 1, in_dims[0]))
        op.register_fake(lambda x: x)
        op.register_kernel("tpu", lambda x: x)
        assert jax.jvp(op, (X,), (X,))[1].tolist() == [2.5, 5.0]
        np.testing.assert_allclose(jax.vmap(op)(X), np.sin(X) + 1, rtol=1e-6)

    def test_options_make_a_decorator_without_a_name(self) -> None:
        @oplib.custom_op(autograd="derive", operand=("by",))
        def times(x: jax.Array, by: float) -> jax.Array:
            return x * by

        assert jax.grad(lambda x: times(x, 4.0).sum())(X).tolist() == [4.0, 4.0]

    def test_equal_names_stay_apart(self) -> None:
        first, second = make_scaled(1.0), make_scaled(2.0)
        assert str(first) == str(second) == "<CustomOpDef(local::scaled(Tensor x) -> Tensor)>"
        np.testing.assert_allclose(second(X), 2 * np.asarray(first(X)), rtol=1e-6)
        both = jax.jit(lambda x: (first(x), second(x)))(X)
        np.testing.assert_allclose(both[1], 2 * np.asarray(both[0]), rtol=1e-6)

    def test_a_rule_registered_later_counts(self) -> None:
        op = make_scaled(1.0)
        jax.grad(lambda x: op(x).sum())(X)
        op.register_autograd(lambda ctx, g: 7 * g)
        assert jax.grad(lambda x: op(x).sum())(X).tolist() == [7.0, 7.0]
        x = oplib.ones(2, requires_grad=True)
        op(x).sum().backward()
        assert x.grad.tolist() == [7.0, 7.0]

    def test_a_jaxpr_shows_one_primitive_for_all_of_them(self) -> None:
        texts = [str(jax.make_jaxpr(make_scaled(factor))(X)) for factor in (1.0, 2.0)]
        assert all("= local_op[" in text and "call=local::scaled" in text for text in texts)

    def test_a_missing_rule_raises(self) -> None:
        op = custom_op(lambda x: x, schema="(Tensor x) -> Tensor", compile=True)
        with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
            jax.grad(lambda x: op(x).sum())(X)


class TestLife:
    def test_no_table_knows_it(self) -> None:
        op = make_scaled(1.0)
        assert "scaled" not in dir(ops.local)
        with pytest.raises(AttributeError, match="local::scaled does not exist"):
            ops.local.scaled  # noqa: B018
        assert copy.deepcopy(op) is op
        with pytest.raises(pickle.PicklingError, match="a local op cannot be pickled"):
            pickle.dumps(op)

    def test_making_it_again_warns_of_nothing(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                use(make_scaled(1.0))

    @pytest.mark.parametrize(
        "use_it",
        [
            lambda op: op(X),
            lambda op: jax.jit(lambda x: op(x))(X),
            lambda op: jax.vmap(op)(X),
            lambda op: op(oplib.ones(2)),
        ],
    )
    def test_nothing_stays_behind_of_its_calls(self, use_it: Any) -> None:
        held = jnp.float32(3)
        op = make_scaled(held)
        use_it(op)
        refs = [weakref.ref(each) for each in (op, op._opoverload, op.__wrapped__, held)]
        del op, held
        gc.collect()
        assert [ref() for ref in refs if ref() is not None] == []

    def test_nothing_stays_behind_of_its_derivatives(self) -> None:
        refs: dict[tuple[str, str], weakref.ref[Any]] = {}
        for (number, rule), use_it in itertools.product(enumerate(RULES), DERIVATIVES):
            held = jnp.float32(3)
            op = make_sine(held)
            rule(op, held)
            DERIVATIVES[use_it](op)
            for each in (op, op._opoverload, op.__wrapped__, held):
                refs[f"rule {number}, {use_it}", type(each).__name__] = weakref.ref(each)
        del op, held, each
        gc.collect()  # once for all: it takes seconds where many tests have run before
        gc.collect()  # JAX's caches refer weakly, and drop an entry after its key
        assert [name for name, ref in refs.items() if ref() is not None] == []

    @pytest.mark.slow
    def test_hundreds_of_them_leave_no_objects_behind(self) -> None:
        count = 200

        def make_and_drop(count: int) -> int:
            for factor in range(count):
                make_scaled(float(factor))(X)
            gc.collect()
            return len(gc.get_objects())

        make_and_drop(20)
        before = make_and_drop(20)
        assert make_and_drop(count) - before < count

    def test_a_recorded_graph_keeps_it_usable(self) -> None:
        x = oplib.tensor([0.5, 1.0], requires_grad=True)
        y = make_scaled(2.0)(x).sum()
        gc.collect()
        y.backward()
        np.testing.assert_allclose(x.grad.array, 6 * np.cos(X), rtol=1e-6)

    def test_so_does_a_traced_function(self) -> None:
        compiled = jax.jit(make_scaled(2.0)).lower(X).compile()
        pulled = jax.vjp(make_scaled(2.0), X)[1]
        gc.collect()
        np.testing.assert_allclose(compiled(X), 2 * np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(pulled(jnp.ones(2))[0], 6 * np.cos(X), rtol=1e-6)


TRANSFORMS = [
    lambda f: jax.jit(f),
    lambda f: jax.jit(lambda w, x: jax.grad(lambda x: f(w, x).sum())(x)),
    lambda f: jax.jit(jax.grad(lambda w, x: f(w, x).sum(), 1)),
    lambda f: lambda w, x: jax.vmap(f, (0, None))(w[None], x),
    lambda f: lambda w, x: jax.vmap(lambda w: jax.grad(lambda x: f(w, x).sum())(x))(w[None]),
    lambda f: lambda w, x: jax.lax.scan(lambda c, _: (f(c, x).sum(), None), w, None, length=2)[0],
    lambda f: jax.jit(lambda w, x: jax.checkpoint(lambda x: f(w, x))(x)),
]
"""Of a function of a number that is closed over and of an array."""


class TestTracersOfAnEnclosingTrace:
    """Closed over as ``jax.custom_vjp`` allows."""

    @pytest.mark.parametrize("transform", TRANSFORMS)
    def test_kernel_and_formula_may_close_over_them(self, transform: Any) -> None:
        def plain(w: Any, x: Any) -> Any:
            @jax.custom_vjp
            def scaled(x):
                return jnp.sin(x) * w

            scaled.defvjp(lambda x: (scaled(x), x), lambda x, g: (3 * g * jnp.cos(x) * w,))
            return scaled(x)

        w = jnp.float32(2)
        got = transform(lambda w, x: make_scaled(w)(x))(w, X)
        np.testing.assert_allclose(got, transform(plain)(w, X), rtol=1e-6)

    @pytest.mark.parametrize("transform", TRANSFORMS)
    @pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
    def test_the_formula_alone_may_close_over_them(self, transform: Any, twice: bool) -> None:
        def call(w: Any, x: Any) -> Any:
            op = custom_op(lambda x: jnp.sin(x), schema="(Tensor x) -> Tensor", compile=True)
            op.register_autograd(
                lambda ctx, g: g * jnp.cos(ctx.saved_tensors[0]) * w,
                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            )
            return op(op(x)) if twice else op(x)

        def plain(w: Any, x: Any) -> Any:
            sine = jax.custom_vjp(jnp.sin)
            sine.defvjp(lambda x: (sine(x), x), lambda x, g: (g * jnp.cos(x) * w,))
            return sine(sine(x)) if twice else sine(x)

        w = jnp.float32(2)
        np.testing.assert_allclose(transform(call)(w, X), transform(plain)(w, X), rtol=1e-6)

    def test_the_formula_alone_may_close_over_them_on_a_traced_tape(self) -> None:
        @jax.jit
        def differentiate(w: Any) -> Any:
            op = custom_op(lambda x: 2 * x, schema="(Tensor x) -> Tensor", compile=True)
            op.register_autograd(lambda ctx, g: 3 * g * w)
            x = oplib.tensor([0.5, 1.0], requires_grad=True)
            op(x).sum().backward()
            return x.grad.array

        assert differentiate(2.0).tolist() == [6.0, 6.0]

    @pytest.mark.parametrize("transform", TRANSFORMS)
    @pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward"])
    def test_a_jvp_rule_alone_may_close_over_them(self, transform: Any, forward: bool) -> None:
        def differentiate(function: Any, x: Any) -> Any:
            return jax.jvp(function, (x,), (jnp.cos(x),))[1] if forward else function(x)

        def call(w: Any, x: Any) -> Any:
            op = custom_op(lambda x: jnp.sin(x), schema="(Tensor x) -> Tensor", compile=True)
            op.register_jvp(lambda primals, tangents: (op(*primals), w * tangents[0] * primals[0]))
            return differentiate(op, x)

        def plain(w: Any, x: Any) -> Any:
            sine = jax.custom_jvp(jnp.sin)
            sine.defjvp(lambda primals, tangents: (sine(*primals), w * tangents[0] * primals[0]))
            return differentiate(sine, x)

        w = jnp.float32(2)
        np.testing.assert_allclose(transform(call)(w, X), transform(plain)(w, X), rtol=1e-6)

    def test_a_derived_op_is_differentiated_through_them(self) -> None:
        def loss(w: Any) -> Any:
            return custom_op(lambda x: x * w, schema="(Tensor x) -> Tensor", compile=True, autograd="derive")(
                X
            ).sum()

        assert jax.grad(loss)(2.0) == 1.5
        assert jax.jvp(loss, (2.0,), (1.0,))[1] == 1.5

    def test_a_jvp_rule_may_close_over_them(self) -> None:
        def push(w: Any) -> Any:
            op = custom_op(lambda x: x * w, schema="(Tensor x) -> Tensor", compile=True)
            op.register_jvp(lambda primals, tangents: (primals[0] * w, 5 * tangents[0] * w))
            return jax.jvp(op, (X,), (X,))[1], jax.grad(lambda x: op(x).sum())(X)

        tangent, gradient = jax.jit(push)(2.0)
        assert tangent.tolist() == [5.0, 10.0]
        assert gradient.tolist() == [10.0, 10.0]

    def test_tensors_of_a_traced_tape(self) -> None:
        @jax.jit
        def step(w: Any) -> Any:
            x = oplib.tensor([0.5, 1.0], requires_grad=True)
            make_scaled(w)(x).sum().backward()
            return x.grad.array

        np.testing.assert_allclose(step(2.0), 6 * np.cos(X), rtol=1e-6)

    @pytest.mark.parametrize(
        ("transform", "captures"),
        [
            (lambda push: jax.jit(push)(2.0), False),
            (lambda push: jax.jit(push)(2.0), True),
            (lambda push: jax.jit(lambda w: jax.jit(push)(w))(2.0), True),
            (lambda push: jax.vmap(push)(X), False),
            (lambda push: jax.vmap(push)(X), True),
            (lambda push: jax.grad(lambda w: push(w).sum())(2.0), False),
        ],
        ids=[
            "jit, formula",
            "jit, kernel",
            "jit in jit, kernel",
            "vmap, formula",
            "vmap, kernel",
            "grad, formula",
        ],
    )
    def test_forward_mode_from_a_formula_that_closes_over_them_is_refused(
        self, transform: Any, captures: bool
    ) -> None:
        def push(w: Any) -> Any:
            kernel = (lambda x: x * w) if captures else (lambda x: 2 * x)
            op = custom_op(kernel, schema="(Tensor x) -> Tensor", compile=True)
            op.register_autograd(lambda ctx, g: w * g)
            return jax.jvp(op, (X,), (X,))[1]

        with pytest.raises(
            MissingRuleError,
            match=r"formula closes over a traced value.* register_jvp.* an argument of the op",
        ):
            transform(push)

    @pytest.mark.parametrize("captures", [False, True], ids=["formula", "kernel and formula"])
    def test_forward_over_reverse_and_a_known_value_are_no_such_case(self, captures: bool) -> None:
        def make(w: Any) -> Any:
            kernel = (lambda x: jnp.sin(x) * w) if captures else (lambda x: jnp.sin(x) * 2.0)
            op = custom_op(kernel, schema="(Tensor x) -> Tensor", compile=True)
            op.register_autograd(
                lambda ctx, g: g * jnp.cos(ctx.saved_tensors[0]) * w,
                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            )
            return op

        hessian = jax.jit(lambda w: jax.hessian(lambda x: make(w)(x).sum())(X))(2.0)
        np.testing.assert_allclose(hessian, np.diag(-2 * np.sin(X)), rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(make(2.0), (X,), (X,))[1], 2 * X * np.cos(X), rtol=1e-6)

    def test_a_formula_is_looked_at_for_them_once_per_signature(self) -> None:
        traced = []
        op = custom_op(lambda x: 2 * x, schema="(Tensor x) -> Tensor", compile=True)
        op.register_autograd(lambda ctx, g: traced.append(g.shape) or 2 * g)
        jax.jvp(op, (X,), (X,))
        count = len(traced)
        for _ in range(3):
            assert jax.jvp(op, (X,), (X,))[1].tolist() == [1.0, 2.0]
        assert len(traced) == count

    def test_the_gradient_by_a_captured_tracer_is_refused_by_name(self) -> None:
        with pytest.raises(CapturedTracerError, match=r"local::.* JAX differentiates.* argument of the op"):
            jax.grad(lambda w: make_scaled(w)(X).sum())(2.0)

    def test_an_argument_may_be_a_number(self) -> None:
        def derive(w: Any) -> Any:
            op = make_scaled(w)
            return op(0.5), jax.grad(op)(0.5), jax.hessian(op)(0.5)

        np.testing.assert_allclose(
            jax.jit(derive)(2.0), [2 * np.sin(0.5), 6 * np.cos(0.5), -6 * np.sin(0.5)], rtol=1e-6
        )

    def test_a_missing_rule_raises(self) -> None:
        def loss(w: Any) -> Any:
            op = custom_op(lambda x: x * w, schema="(Tensor x) -> Tensor", compile=True)
            return jax.grad(lambda x: op(x).sum())(X)

        with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
            jax.jit(loss)(2.0)

    def test_an_op_with_a_name_refuses_them_and_names_the_way_out(self) -> None:
        def call(w: Any) -> Any:
            return custom_op("cap::named", lambda x: x * w, schema="(Tensor x) -> Tensor", compile=True)(X)

        with pytest.raises(TracingError, match=r"closes over a traced value.* make the op without a name"):
            jax.jit(call)(2.0)


def _backward(op: Any) -> Any:
    x = oplib.ones(2, requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None
    return x.grad.tolist(), jax.grad(lambda x: op(x).sum())(jnp.ones(2)).tolist()


def test_a_rule_ends_with_its_library() -> None:
    op = custom_op(lambda x: 2 * x, schema="(Tensor x) -> Tensor", compile=True)
    library = Library("local", "FRAGMENT")
    register_autograd(op, lambda ctx, grad: 7 * grad, lib=library)
    assert _backward(op) == ([7, 7], [7, 7])
    library._destroy()
    with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
        _backward(op)
    register_autograd(op, lambda ctx, grad: 3 * grad)
    assert _backward(op) == ([3, 3], [3, 3])


def test_a_setup_runs_again_after_the_default_dtype_has_changed() -> None:
    op = custom_op(lambda x: 2 * x, schema="(Tensor x) -> Tensor", compile=True)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.size = oplib.get_default_dtype().itemsize

    op.register_autograd(lambda ctx, grad: ctx.size * grad, setup_context=setup)
    for dtype in (oplib.float32, oplib.float16, oplib.float32):
        oplib.set_default_dtype(dtype)
        assert jax.grad(lambda x: op(x).sum())(jnp.ones(2)).tolist() == [dtype.itemsize] * 2


@pytest.mark.parametrize("rule", ["backward formula", "jvp rule"])
def test_a_rule_that_closes_over_a_value_of_vmap_names_the_cure_outside_of_it(rule: str) -> None:
    """JAX runs the rule after the map, where the value is gone."""

    def scale(factor: Any, x: Any) -> Any:
        op = custom_op(_double)
        if rule == "jvp rule":
            op.register_jvp(lambda primals, tangents: (2 * primals[0], tangents[0] * factor))
        else:
            op.register_autograd(lambda ctx, g: g * factor)
        return op(x)

    with pytest.raises(CapturedTracerError) as told:
        jax.grad(lambda x: jax.vmap(scale)(x, x).sum())(X)
    text = str(told.value)
    assert text.startswith(
        f"local::_double: the {rule} closes over a value of a trace that has ended. Got float32["
    )
    assert text.endswith("Make it an argument of the op.")
    assert len(text) <= 400
    inside = jax.vmap(lambda factor, x: jax.grad(lambda x: scale(factor, x))(x))(X, X)
    np.testing.assert_allclose(inside, X)

    @custom_op  # the cure
    def with_argument(x: jax.Array, factor: jax.Array) -> jax.Array:
        return x * 2

    with_argument.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
    )
    found = jax.grad(lambda x: jax.vmap(with_argument)(x, jax.lax.stop_gradient(x)).sum())(X)
    np.testing.assert_allclose(found, X)


def _double(x: jax.Array) -> jax.Array:
    return x * 2
