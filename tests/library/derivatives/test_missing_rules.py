"""A missing rule is derived, or raises an error with op, transformation and cure; unused rules raise too."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import ArgumentError, AutogradError, MissingRuleError, RegistrationTypeError, ResultError
from oplib.library import CustomOpDef, custom_op
from oplib.tensor import Tensor, tensor

X = jnp.array([0.3, -0.7, 1.1])
OPCODE = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = \S+ ([\w-]+)\(", re.MULTILINE)


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, jax.Array)))


def count_operations(function: Any, *args: Any) -> Counter[str]:
    """Counts each operation in the optimised program of a jitted function."""
    return Counter(OPCODE.findall(jax.jit(function).lower(*args).compile().as_text()))


class TestWithoutAnyRule:
    def make(self) -> CustomOpDef:
        @custom_op("miss::opaque")
        def opaque(x: jax.Array) -> jax.Array:
            return x

        return opaque

    @pytest.mark.parametrize(
        "run",
        [
            lambda op: jax.grad(lambda x: op(x).sum())(X),
            lambda op: jax.jvp(op, (X,), (X,)),
            lambda op: jax.jit(jax.vmap(jax.grad(op)))(X),
            lambda op: jax.linearize(op, X),
            lambda op: jax.hessian(lambda x: op(x).sum())(X),
        ],
        ids=["grad", "jvp", "jit of vmap of grad", "linearize", "hessian"],
    )
    def test_every_derivative_raises_and_names_op_transformation_and_cure(self, run: Any) -> None:
        with pytest.raises(
            MissingRuleError,
            match=r"^miss::opaque: jax.grad, jax.jvp or .* no autograd formula was registered, and no jvp "
            r'rule\. Use register_autograd .*"derive".*; or register_jvp',
        ):
            run(self.make())

    def test_no_derivative_is_asked_for_where_nothing_moves(self) -> None:
        opaque = self.make()
        np.testing.assert_allclose(jax.grad(lambda x: (x * opaque(jnp.ones(3))).sum())(X), np.ones(3))
        stopped = jax.grad(lambda x: opaque(jax.lax.stop_gradient(x)).sum())(X)
        np.testing.assert_array_equal(stopped, np.zeros(3))


class TestNumbers:
    def make(self, **options: Any) -> CustomOpDef:
        @custom_op("miss::scale", **options)
        def scale(x: jax.Array, by: float) -> jax.Array:
            return x * by

        return scale

    @pytest.mark.parametrize(
        "run",
        [lambda f: jax.grad(f)(2.0), lambda f: jax.jvp(f, (2.0,), (1.0,)), lambda f: jax.jit(f)(2.0)],
        ids=["grad", "jvp", "jit"],
    )
    def test_a_derivative_by_a_static_number_raises_and_names_the_cure(self, run: Any) -> None:
        scale = self.make()
        with pytest.raises(
            ArgumentError, match=r"miss::scale: argument 'by'.*traced.*declare operand=\('by',\)"
        ):
            run(lambda by: scale(X, by).sum())

    def test_none_for_an_operand_is_no_declared_zero(self) -> None:
        scale = self.make(operand=("by",))
        scale.register_autograd(
            lambda ctx, grad: (grad * ctx.by, None),
            setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
        )
        f = lambda by: scale(X, by).sum()  # noqa: E731
        for run in (lambda: jax.grad(f)(2.0), lambda: jax.jvp(f, (2.0,), (1.0,))):
            with pytest.raises(
                MissingRuleError, match=r"miss::scale: a derivative by argument 'by' was asked"
            ):
                run()
        np.testing.assert_allclose(jax.grad(lambda x: scale(x, 2.0).sum())(X), np.full(3, 2.0))

    def test_an_operand_has_the_gradient_that_the_formula_gives(self) -> None:
        scale = self.make(operand=("by",))
        scale.register_autograd(
            lambda ctx, grad: (grad * ctx.by, (grad * ctx.x).sum()),
            setup_context=lambda ctx, inputs, output: vars(ctx).update(x=inputs[0], by=inputs[1]),
        )
        f = lambda by: scale(X, by).sum()  # noqa: E731
        np.testing.assert_allclose(jax.grad(f)(2.0), X.sum(), rtol=1e-6)
        np.testing.assert_allclose(jax.jvp(f, (2.0,), (1.0,))[1], X.sum(), rtol=1e-6)

    def test_a_constant_op_lets_any_operand_move(self) -> None:
        scale = self.make(operand=("by",))
        scale.register_autograd(constant="it is a threshold")
        assert jax.grad(lambda by: scale(X, by).sum())(2.0) == 0.0


class TestForwardModeFromAFormula:
    def test_it_is_transposed_and_equals_the_derivative_of_the_kernel(self) -> None:
        @custom_op("miss::joined")
        def joined(x: jax.Array, w: jax.Array) -> jax.Array:
            return jnp.tanh(x) @ w

        joined.register_autograd(
            lambda ctx, grad: (
                (1 - jnp.tanh(ctx.saved_tensors[0]) ** 2) * (grad @ ctx.saved_tensors[1].T),
                jnp.tanh(ctx.saved_tensors[0]).T @ grad,
            ),
            setup_context=save_inputs,
        )
        x, w = jnp.arange(6.0).reshape(2, 3) / 5, jnp.arange(12.0).reshape(3, 4) / 7
        moves = (x + 1, w - 1)
        plain = jax.jvp(lambda x, w: jnp.tanh(x) @ w, (x, w), moves)[1]
        np.testing.assert_allclose(jax.jvp(joined, (x, w), moves)[1], plain, rtol=1e-5)
        step = 1e-2
        at = lambda t: joined(x + t * moves[0], w + t * moves[1])  # noqa: E731
        np.testing.assert_allclose((at(step) - at(-step)) / (2 * step), plain, rtol=1e-2, atol=1e-3)

    def test_a_formula_with_a_free_term_raises_and_keeps_its_reverse_mode(self) -> None:
        @custom_op("miss::affine")
        def affine(x: jax.Array) -> jax.Array:
            return x

        affine.register_autograd(
            lambda ctx, grad: grad + 0.1 * ctx.saved_tensors[0], setup_context=save_inputs
        )
        with pytest.raises(
            AutogradError, match=r"miss::affine: no forward mode can be derived.*nonlinear=True"
        ):
            jax.jvp(affine, (X,), (X,))
        np.testing.assert_allclose(jax.grad(lambda x: affine(x).sum())(X), 1 + 0.1 * X, rtol=1e-6)

    def test_a_nonlinear_one_raises_unless_there_is_a_jvp_rule(self) -> None:
        @custom_op("miss::clip")
        def clip(x: jax.Array) -> jax.Array:
            return x

        clip.register_autograd(lambda ctx, grad: jnp.clip(grad, -1, 1), nonlinear=True)
        with pytest.raises(
            MissingRuleError, match=r"miss::clip: there is no forward-mode rule.*register_jvp"
        ):
            jax.jvp(clip, (X,), (X,))
        clip.register_jvp(lambda primals, tangents: (primals[0], 5 * tangents[0]))
        np.testing.assert_allclose(jax.jvp(clip, (X,), (X,))[1], 5 * X)
        np.testing.assert_allclose(jax.grad(lambda x: 3 * clip(x).sum())(X), np.ones(3))


class TestNothingInVain:
    def make_pair(self, given: list[Any], *, materialize: bool) -> CustomOpDef:
        @custom_op("miss::pair")
        def pair(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jnp.sin(x) * w, jnp.cos(x)

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            save_inputs(ctx, inputs, output)
            ctx.set_materialize_grads(materialize)

        def backward(ctx: Any, by_sin: Any, by_cos: Any) -> Any:
            given.append((by_sin is None, by_cos is None, ctx.needs_input_grad))
            x, w = ctx.saved_tensors
            by_x = 0 if by_sin is None else by_sin * w * jnp.cos(x)
            by_x = by_x if by_cos is None else by_x - by_cos * jnp.sin(x)
            by_w = None
            if ctx.needs_input_grad[1]:
                by_w = jnp.zeros_like(w) if by_sin is None else (by_sin * jnp.sin(x)).sum()
            return by_x, by_w

        pair.register_autograd(backward, setup_context=setup)
        return pair

    def test_a_formula_gets_none_for_unused_outputs(self) -> None:
        given: list[Any] = []
        pair, w = self.make_pair(given, materialize=False), jnp.float32(2)
        grads = jax.grad(lambda x, w: pair(x, w)[0].sum(), argnums=(0, 1))(X, w)
        np.testing.assert_allclose(grads[0], 2 * np.cos(X), rtol=1e-6)
        jax.grad(lambda x: pair(x, w)[1].sum())(X)
        assert given[0] == (False, True, (True, True))
        assert given[-1] == (True, False, (True, False))

    def test_zeros_instead_where_it_wants_them(self) -> None:
        given: list[Any] = []
        pair = self.make_pair(given, materialize=True)
        grad = jax.grad(lambda x: pair(x, jnp.float32(2))[0].sum())(X)
        np.testing.assert_allclose(grad, 2 * np.cos(X), rtol=1e-6)
        assert given[-1][:2] == (False, False)

    def test_the_program_of_a_gradient_holds_no_work_for_other_outputs_or_inputs(self) -> None:
        pair = self.make_pair([], materialize=False)
        f = lambda x, w: pair(x, w)[0].sum()  # noqa: E731
        by_x = count_operations(jax.grad(f), X, jnp.float32(2))
        assert (by_x["sine"], by_x["reduce"], by_x["cosine"]) == (0, 0, 1)
        by_w = count_operations(jax.grad(f, argnums=1), X, jnp.float32(2))
        assert (by_w["sine"], by_w["reduce"], by_w["cosine"]) == (1, 1, 0)

    def test_vmap_keeps_the_absence_of_a_gradient(self) -> None:
        given: list[Any] = []
        pair = self.make_pair(given, materialize=False)
        mapped = jax.vmap(lambda x, w: pair(x, w), (0, None))
        jax.grad(lambda x: mapped(x, jnp.float32(2))[0].sum())(jnp.stack([X, X]))
        assert given[-1][:2] == (False, True)

    def test_a_jvp_rule_with_symbolic_zeros_gets_none_for_an_input_without_tangent(self) -> None:
        given: list[Any] = []

        @custom_op("miss::moved")
        def moved(x: jax.Array, w: jax.Array) -> jax.Array:
            return x * w

        @moved.register_jvp(symbolic_zeros=True)
        def push(primals: Any, tangents: Any) -> Any:
            given.append(tuple(tangent is None for tangent in tangents))
            (x, w), (dx, dw) = primals, tangents
            return x * w, (0 if dx is None else dx * w) + (0 if dw is None else x * dw)

        jax.jvp(lambda x: moved(x, jnp.float32(2)), (X,), (X,))
        jax.grad(lambda w: moved(X, w).sum())(jnp.float32(2))
        assert given[0] == (False, True)
        assert given[-1] == (True, False)

    def test_a_second_derivative_by_one_input_does_not_differentiate_by_the_others(self) -> None:
        @custom_op("miss::curved")
        def curved(x: jax.Array, w: jax.Array) -> jax.Array:
            return x * jnp.sin(w)

        curved.register_autograd(
            lambda ctx, grad: (grad * jnp.sin(ctx.saved_tensors[1]), None), setup_context=save_inputs
        )
        second = jax.grad(lambda x: (jax.grad(lambda x: curved(x, X).sum())(x) * x).sum())
        assert count_operations(second, X)["cosine"] == 0
        np.testing.assert_allclose(second(X), np.sin(X), rtol=1e-5)


class TestBadRules:
    @pytest.fixture
    def op(self) -> CustomOpDef:
        @custom_op("miss::two")
        def two(x: jax.Array, y: jax.Array, *, scale: float = 1.0) -> tuple[jax.Array, jax.Array]:
            return x, y

        return two

    @pytest.mark.parametrize("formula", [lambda ctx, g: g, lambda g, h: g, lambda ctx, g, h, k: g])
    def test_a_formula_takes_ctx_and_one_gradient_per_result(self, op: CustomOpDef, formula: Any) -> None:
        with pytest.raises(
            RegistrationTypeError, match=r"miss::two: the backward formula .* expected \(ctx, grad, grad\)"
        ):
            op.register_autograd(formula)
        assert op._opoverload.record.derivative.backward is None

    @pytest.mark.parametrize(
        "setup",
        [lambda ctx, inputs, output: None, lambda ctx, x, y: None, lambda inputs, output: None],
    )
    def test_a_setup_with_wrong_parameters_is_refused(self, op: CustomOpDef, setup: Any) -> None:
        due = r"miss::two: setup_context .* expected \(ctx, inputs, keyword_only_inputs, output\) by name"
        with pytest.raises(RegistrationTypeError, match=due):
            op.register_autograd(lambda ctx, *grads: grads, setup_context=setup)
        assert op._opoverload.record.derivative.setup_context is None

    def test_a_setup_that_takes_anything_is_accepted(self, op: CustomOpDef) -> None:
        op.register_autograd(lambda ctx, *grads: grads, setup_context=lambda **given: None)
        assert jax.grad(lambda x: op(x, X)[0].sum())(X).tolist() == [1.0] * X.size

    def test_a_jvp_rule_takes_primals_and_tangents(self, op: CustomOpDef) -> None:
        with pytest.raises(
            RegistrationTypeError, match=r"miss::two: the jvp rule .* expected \(primals, tangents\)"
        ):
            op.register_jvp(lambda x, y, dx, dy: x)

    def test_a_batching_rule_takes_info_places_and_the_arguments(self, op: CustomOpDef) -> None:
        with pytest.raises(
            RegistrationTypeError, match=r"miss::two: the vmap rule .* expected \(info, in_dims\)"
        ):
            op.register_vmap(lambda info, in_dims, x: x)
        op.register_vmap(lambda info, in_dims, x, y, *, scale: ((x, y), 0))

    def test_rules_that_take_anything_are_taken_on_trust(self, op: CustomOpDef) -> None:
        def take_anything(*args: Any) -> Any:
            return args

        op.register_autograd(take_anything, setup_context=lambda **kwargs: None)
        op.register_jvp(take_anything)
        record = op._opoverload.record
        assert record.jvp is not None
        assert (record.derivative.backward, record.jvp.function) == (take_anything, take_anything)


class TestFakeKernelsThatDoNotFit:
    @pytest.mark.parametrize("kind", [jax.Array, np.ndarray, Tensor], ids=["array", "host", "tensor"])
    @pytest.mark.parametrize("jitted", [False, True], ids=["at once", "jitted"])
    def test_shapes_that_differ_raise_at_first_use_and_both_are_shown(self, kind: Any, jitted: bool) -> None:
        def kernel(x: Any) -> Any:
            return x + 1

        kernel.__annotations__ = {"x": kind, "return": kind}
        op = custom_op("miss::grows", kernel)
        op.register_fake(lambda x: jnp.zeros((*x.shape, 2)))
        run = jax.jit(op) if jitted else op
        with pytest.raises(
            ResultError if not (jitted and kind is np.ndarray) else Exception,
            match=r"miss::grows: the kernel's results differ from those of its fake kernel\. "
            r"The kernel returned "
            r"\[f32\[3\]\], the fake kernel \[f32\[3,2\]\]",
        ):
            jax.block_until_ready(run(tensor(X) if kind is Tensor and not jitted else X))

    def test_a_kernel_that_runs_at_once_raises_each_time_until_they_agree(self) -> None:
        @custom_op("miss::again")
        def again(x: Tensor) -> Tensor:
            return x + 1

        again.register_fake(lambda x: jnp.zeros((*x.shape, 2)))
        for _ in range(2):
            with pytest.raises(ResultError, match="differ from those of its fake kernel"):
                again(tensor(X))
        again.register_fake(lambda x: x)
        assert again(tensor(X)).shape == X.shape

    def test_a_dtype_that_differs_does_so_too(self) -> None:
        @custom_op("miss::half")
        def half(x: jax.Array) -> jax.Array:
            return x.astype(jnp.bfloat16)

        half.register_fake(lambda x: x)
        with pytest.raises(
            ResultError, match=r"The kernel returned \[bf16\[3\]\], the fake kernel \[f32\[3\]\]"
        ):
            half(X)
        half.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.bfloat16))
        assert half(X).dtype == jnp.bfloat16


def test_a_derivative_of_an_op_that_writes_raises_with_the_reason() -> None:
    @custom_op("missing::writes", mutates_args=("x",))
    def writes(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    with pytest.raises(MissingRuleError, match=r"missing::writes: .*writes an argument.*functional operator"):
        jax.grad(lambda x: writes._opoverload.functional(x, x).sum())(jnp.ones(2))
