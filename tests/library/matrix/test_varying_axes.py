"""Single facts about the varying axes of results and gradients inside of ``shard_map``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib import Tensor
from oplib.autograd import grad
from oplib.errors import ResultError, TracingError
from oplib.library import custom_op
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("D.31")]
X, W = jnp.arange(1.0, 9.0), jnp.float32(2.0)
SHARED, MIXED = P(), (P("i"), P())


def spread(function: Callable[..., Any], out_specs: Any = SHARED, specs: Any = MIXED, **options: Any) -> Any:
    mesh = options.pop("mesh", None) or make_mesh()
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out_specs, **options))


def axes_of(*values: Any) -> list[set[str]]:
    return [set(jax.typeof(value).manual_axis_type.varying) for value in values]


def save_operands(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def make_pair(kernel: Any = None, backward: Any = lambda ctx, g, h: (2 * g, 3 * h)) -> Any:
    op = custom_op(
        kernel or (lambda x, w: (2 * x, 3 * w)),
        schema="(Tensor x, Tensor w) -> (Tensor, Tensor)",
        compile=True,
    )
    op.register_autograd(backward)
    return op


def double_and_triple(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * x, 3 * w


def make_host_pair(fake: Any, backward: Any = lambda ctx, g, h: (2 * g, 3 * h)) -> Any:
    op = custom_op(double_and_triple)
    op.register_fake(fake)
    op.register_autograd(backward)
    return op


def shape_of(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def type_of(value: Any) -> jax.ShapeDtypeStruct:
    kind = jax.typeof(value).manual_axis_type
    return jax.ShapeDtypeStruct(value.shape, value.dtype, manual_axis_type=kind)


class TestResults:
    def test_a_result_of_replicated_operands_alone_counts_once(self) -> None:
        op = make_pair()
        assert spread(lambda x, w: jax.grad(lambda w: op(x, w)[1].sum())(w))(X, W) == 3

    def test_a_derived_op_that_ends_in_a_mean_counts_once(self) -> None:
        op = custom_op(
            lambda x, w: lax.pmean(((x * w) ** 2).sum(), "i"),
            schema="(Tensor x, Tensor w) -> Tensor",
            compile=True,
        )
        op.register_autograd("derive")
        ones = jnp.full(8, 0.5**0.5)
        found = spread(lambda x, w: jax.grad(lambda w: op(x, w))(w))(ones, W)
        np.testing.assert_allclose(found, 2, rtol=1e-6)

    def test_they_are_carries_of_a_scan_and_leave_replicated(self) -> None:
        op = make_pair()

        def inside(x: Any, w: Any) -> Any:
            carry, ys = lax.scan(lambda carry, one: op(one, carry)[::-1], w, x.repeat(3))
            return carry, ys

        carry, ys = spread(inside, (P(), P("i")))(X, W)
        assert carry == 2 * 3**3
        np.testing.assert_array_equal(ys, 2 * X.repeat(3))

    def test_each_mesh_axis_counts_for_itself(self) -> None:
        def kernel(x: Any, w: Any) -> Any:
            return lax.psum((x * w).sum(), "i"), (x * w).sum()

        def pull(ctx: Any, g: Any, h: Any) -> Any:
            x, w = ctx.saved_tensors
            return (g + h) * w * jnp.ones_like(x), ((g + h) * x).sum()[None]

        op = custom_op(kernel, schema="(Tensor x, Tensor w) -> (Tensor, Tensor)", compile=True)
        op.register_autograd(pull, setup_context=save_operands)
        seen: list[Any] = []

        def inside(f: Any) -> Any:
            def run(x: Any, w: Any) -> Any:
                found = jax.grad(lambda x, w: sum(jnp.sin(each) for each in f(x, w)), (0, 1))(x, w)
                seen.append(axes_of(*f(x, w), *found))
                return found

            specs = (P(("i", "k")), P("k"))
            return spread(run, specs, specs, mesh=make_mesh(shape=(4, 2)))(X, jnp.arange(2.0))

        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), inside(op), inside(kernel))
        assert seen[0] == seen[1] == [{"k"}, {"i", "k"}, {"i", "k"}, {"k"}]

    def test_lists_and_numbers_are_arguments_as_elsewhere(self) -> None:
        op = custom_op(
            lambda xs, scale: [scale * lax.psum(xs[0], "i"), xs[0] * xs[1], xs[1] ** 2],
            schema="(Tensor[] xs, float scale) -> Tensor[]",
            compile=True,
        )

        def pull(ctx: Any, grads: Any) -> Any:
            x, w = ctx.saved_tensors
            total, product, square = grads
            return [3 * total + product * w, (product * x).sum() + 2 * square * w], None

        op.register_autograd(
            pull, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0])
        )

        def plain(xs: Any, scale: Any) -> Any:
            return [scale * lax.psum(xs[0], "i"), xs[0] * xs[1], xs[1] ** 2]

        def loss(x: Any, w: Any, f: Any) -> Any:
            return sum(jnp.sin(each).sum() for each in f([x, w], 3.0))

        found, due = (
            spread(lambda x, w, f=f: jax.grad(loss, (0, 1))(x, w, f), MIXED)(X, W) for f in (op, plain)
        )
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, due)

    def test_a_batching_rule_may_sum_over_devices_too(self) -> None:
        op = custom_op(
            lambda x, w: (lax.psum(x.sum() * w, "i"), w**2),
            schema="(Tensor x, Tensor w) -> (Tensor, Tensor)",
            compile=True,
        )
        op.register_autograd("derive")

        @op.register_vmap
        def batch(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
            rows = jnp.moveaxis(x, in_dims[0], 0).reshape(info.batch_size, -1).sum(1)
            return (lax.psum(rows * w, "i"), jnp.broadcast_to(w**2, (info.batch_size,))), (0, 0)

        def inside(x: Any, w: Any) -> Any:
            sums, squares = jax.vmap(op, (0, None))(jnp.stack([x, 2 * x]), w)
            return sums, squares

        sums, squares = spread(inside, (P(), P()))(X, W)
        np.testing.assert_allclose(sums, [2 * X.sum(), 4 * X.sum()])
        np.testing.assert_allclose(squares, [4, 4])

    def test_kernels_by_platform_may_vary_over_different_axes(self) -> None:
        op = custom_op(
            lambda x, w: (x * w, w), schema="(Tensor x, Tensor w) -> (Tensor, Tensor)", compile=True
        )
        op.register_kernel("cuda", lambda x, w: (jnp.zeros(x.shape), 1 * w))
        seen: list[Any] = []

        def inside(x: Any, w: Any) -> Any:
            seen.extend(axes_of(*op(x, w)))
            return op(x, w)

        product, copy = spread(inside, (P("i"), P()))(X, W)
        np.testing.assert_allclose(product, X * W)
        assert copy == W
        assert seen == [{"i"}, set()]

    def test_a_kernel_that_jax_cannot_trace_on_mixed_types_gets_equal_ones(self) -> None:
        op = custom_op(
            lambda x, w: lax.scan(lambda carry, one: (carry * one, None), w, x)[0],
            schema="(Tensor x, Tensor w) -> Tensor",
            compile=True,
        )
        op.register_autograd("derive")
        found = spread(lambda x, w: jax.grad(lambda w: op(x, w))(w))(X, W)
        np.testing.assert_allclose(found, X.sum())


class TestGradients:
    def test_a_zero_that_a_formula_declares_has_the_type_of_its_input(self) -> None:
        op = make_pair(backward=lambda ctx, g, h: (None, 3 * h))

        def loss(x: Any, w: Any) -> Any:
            doubled, tripled = op(x, w)
            return lax.psum(doubled.sum(), "i") + tripled

        by_x, by_w = spread(jax.grad(loss, (0, 1)), MIXED)(X, W)
        assert not by_x.any()
        assert by_w == 3

    def test_the_tape_gives_them_the_types_of_their_inputs(self) -> None:
        def run(x: Any, w: Any) -> Any:
            return x * w, w**3

        op = custom_op(run, schema="(Tensor x, Tensor w) -> (Tensor, Tensor)", compile=True)

        def pull(ctx: Any, g: Any, h: Any) -> Any:
            x, w = ctx.saved_tensors
            return g * w, (g * x).sum() + 3 * h * w**2

        op.register_autograd(pull, setup_context=save_operands)

        def on_tape(x: Any, w: Any) -> Any:
            leaves = Tensor.from_array(x, requires_grad=True), Tensor.from_array(w, requires_grad=True)
            product, cube = op(*leaves)
            return tuple(each.array for each in grad(product.sum() + cube.sin(), leaves))

        def plain(x: Any, w: Any) -> Any:
            return jax.grad(lambda x, w: (x * w).sum() + jnp.sin(w**3), (0, 1))(x, w)

        for found, due in zip(spread(on_tape, MIXED)(X, W), spread(plain, MIXED)(X, W), strict=True):
            np.testing.assert_allclose(found, due, rtol=1e-5)


class TestOpaqueKernels:
    def test_their_results_vary_as_any_operand_does(self) -> None:
        op = make_host_pair(lambda x, w: (shape_of(x), shape_of(w)))
        seen: list[Any] = []

        def inside(x: Any, w: Any) -> Any:
            seen.extend(axes_of(*op(x, w)))
            return jax.grad(lambda w: op(x, w)[1])(w)

        assert spread(inside)(X, W) == 3 * 8  # each device has a result of its own
        assert seen == [{"i"}, {"i"}]

    def test_a_callback_deep_in_an_array_kernel_or_formula_counts_too(self) -> None:
        def multiply(x: Any, w: Any) -> Any:
            shape = jax.ShapeDtypeStruct(jnp.broadcast_shapes(x.shape, w.shape), x.dtype)
            return jax.jit(lambda x, w: jax.pure_callback(lambda x, w: np.asarray(x * w), shape, x, w))(x, w)

        op = custom_op(multiply, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
        op.register_autograd(
            lambda ctx, g: (multiply(g, ctx.saved_tensors[1]), multiply(g, ctx.saved_tensors[0]).sum()),
            setup_context=save_operands,
        )
        found = [
            jax.jit(jax.grad(lambda x, w, f=f: jnp.sin(f(x, w)).sum(), (0, 1)))(X, W)
            for f in (spread(op, P("i")), spread(op, P("i"), check_vma=False))
        ]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), *found)
        np.testing.assert_allclose(found[0][1], (X * jnp.cos(X * W)).sum(), rtol=1e-5)

    @pytest.mark.parametrize("on_host", [True, False], ids=["formula on the host", "formula of JAX"])
    def test_the_fake_kernel_may_declare_that_a_result_does_not_vary(self, on_host: bool) -> None:
        def pull(ctx: Any, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return 2 * g, 3 * h

        op = make_host_pair(
            lambda x, w: (shape_of(x), type_of(w)), pull if on_host else lambda ctx, g, h: (2 * g, 3 * h)
        )
        seen: list[Any] = []

        def inside(x: Any, w: Any) -> Any:
            seen.extend(axes_of(*op(x, w)))
            return op(x, w)[1], jax.grad(lambda w: op(x, w)[1])(w)

        assert spread(inside, (P(), P()))(X, W) == (6, 3)
        assert seen == [{"i"}, set()]

    def test_so_may_the_sharding_rule(self) -> None:
        op = make_host_pair(lambda x, w: (shape_of(x), shape_of(w)))
        op.register_sharding("i, -> i, ")
        assert spread(lambda x, w: jax.grad(lambda w: op(x, w)[1])(w))(X, W) == 3

    def test_a_local_op_that_closes_over_a_part_is_no_exception(self) -> None:
        def inside(x: Any, w: Any) -> Any:
            shape = jax.ShapeDtypeStruct((), x.dtype)
            op = custom_op(
                lambda w: jax.pure_callback(lambda x, w: np.asarray(x.sum() * w), shape, x, w),
                schema="(Tensor w) -> Tensor",
                compile=True,
            )
            return op(w + 0 * x.sum())[None]

        np.testing.assert_array_equal(spread(inside, P("i"))(X, W), X * W)


class TestRefusals:
    def test_a_fake_kernel_that_contradicts_the_kernel_is_named_with_its_line(self) -> None:
        op = make_pair(lambda x, w: (2 * x, x.sum() * w))
        op.register_fake(lambda x, w: (shape_of(x), type_of(w)))
        with pytest.raises(
            ResultError, match=r"Result 1 varies over 'i', .* at .*test_varying_axes.py:\d+ declares none"
        ):
            spread(lambda x, w: op(x, w)[0], P("i"))(X, W)

    def test_a_tangent_that_varies_more_than_its_result_names_the_rule(self) -> None:
        op = custom_op(lambda x: lax.psum(x.sum(), "i"), schema="(Tensor x) -> Tensor", compile=True)
        op.register_jvp(lambda primals, tangents: (lax.psum(primals[0].sum(), "i"), tangents[0].sum()))
        with pytest.raises(ResultError, match="value 0 of the jvp rule varies over other mesh axes"):
            spread(lambda x: jax.jvp(op, (x,), (x,))[1], specs=P("i"))(X)

    @pytest.mark.parametrize("rules", ["formula", "forward", "none", "jvp", "derive"])
    def test_a_reduced_weight_has_the_gradient_of_custom_vjp_if_it_is_cast(self, rules: str) -> None:
        def run(x: Any, w: Any) -> Any:
            return x * w

        def pull(saved: Any, g: Any) -> Any:
            x, w = saved
            return g * w, None if rules == "none" else lax.pcast((g * x).sum(), "i", to="unreduced")

        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return run(x, w)

        op = custom_op(run, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
        if rules == "derive":
            op.register_autograd("derive")
        elif rules == "jvp":
            op.register_jvp(lambda primals, tangents: jax.jvp(run, primals, tangents))
        else:
            op.register_autograd(lambda ctx, g: pull(ctx.saved_tensors, g), forward=forward)
        if rules == "formula":
            op.register_autograd(lambda ctx, g: pull(ctx.saved_tensors, g), setup_context=save_operands)
        by_hand = jax.custom_vjp(run)
        by_hand.defvjp(lambda x, w: (by_hand(x, w), (x, w)), pull)

        def differentiate(function: Any) -> Any:
            def inside(x: Any, w: Any) -> Any:
                def loss(x: Any, w: Any) -> Any:
                    return (function(x, lax.pcast(w, "i", to="reduced")) ** 2).sum()

                def once(x: Any, w: Any) -> Any:
                    return jax.grad(loss, (0, 1))(x, w)

                return once(x, w), jax.grad(lambda x, w: (once(x, w)[0] ** 2).sum(), (0, 1))(x, w)

            return spread(inside, ((P("i"), P()),) * 2)(X, W)

        found, expected = differentiate(op), differentiate(by_hand)
        jax.tree.map(np.testing.assert_allclose, found, expected)

    def test_of_reduced_axes_an_uncast_gradient_and_derived_forward_mode_are_refused(self) -> None:
        op = custom_op(lambda x, w: x * w, schema="(Tensor x, Tensor w) -> Tensor", compile=True)
        op.register_autograd(lambda ctx, g: (g, g.sum()))

        def reverse(x: Any, w: Any) -> Any:
            reduced = lax.pcast(w, "i", to="reduced")
            return lax.psum(jax.grad(lambda w: op(x, w).sum())(reduced), "i")

        with pytest.raises(TracingError, match=r"argument 'w' has another type .* over 'i'. .* Cast it in"):
            spread(reverse)(X, W)

        def push(x: Any, w: Any) -> Any:
            return jax.jvp(lambda x, w: op(x, lax.pcast(w, "i", to="reduced")), (x, w), (x, w))[1]

        with pytest.raises(TracingError, match=r"no forward mode can be derived .*reduced over 'i'"):
            spread(push, P("i"))(X, W)
