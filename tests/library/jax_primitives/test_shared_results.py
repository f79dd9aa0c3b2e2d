"""A result that does not depend on the batch is not batched: by the batching rule, or by JAX without one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import oplib
from oplib.autograd import grad
from oplib.errors import ResultError
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry
from tests.library.sample_kernels import KINDS

X, W = jnp.arange(6.0).reshape(2, 3) + 1, jnp.array([0.5, -1.0, 2.0])

pytestmark = pytest.mark.spec("D.36", "D.47")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def compute(x: Any, w: Any) -> tuple[Any, Any]:
    """The same function without the op."""
    return x * w, w * w * w


def make(
    kind: str = "compiled", rules: str = "formula", *, derived: bool = False, **options: Any
) -> CustomOpDef:
    def kernel(x: Any, w: Any) -> Any:
        return compute(x, w)

    kind_of = KINDS[kind]
    kernel.__annotations__ = {"x": kind_of, "w": kind_of, "return": tuple[kind_of, kind_of]}
    op = custom_op(f"shared::{kind}_{rules}", kernel, **options)
    op.register_fake(lambda x, w: (jnp.zeros(x.shape, x.dtype), jnp.zeros(w.shape, w.dtype)))
    if rules == "formula":

        def backward(ctx: Any, of_product: Any, of_cube: Any) -> Any:
            x, w = ctx.saved_tensors
            return of_product * w, of_product * x + of_cube * 3 * w * w

        op.register_autograd(
            backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        )
    elif rules == "derive":
        op.register_autograd("derive")
    elif rules == "jvp":

        def push(primals: Any, tangents: Any) -> Any:
            (x, w), (dx, dw) = primals, tangents
            return compute(x, w), (dx * w + x * dw, 3 * w * w * dw)

        op.register_jvp(push)

    if derived:
        return op

    def batch(info: Any, dims: Any, x: Any, w: Any) -> Any:
        of_x, of_w = dims
        x = x if of_x is None else (x.movedim(of_x, 0) if kind == "eager" else jnp.moveaxis(x, of_x, 0))
        w = w if of_w is None else (w.movedim(of_w, 0) if kind == "eager" else jnp.moveaxis(w, of_w, 0))
        return (x * w, w * w * w), (0, None if of_w is None else 0)

    op.register_vmap(batch)
    return op


RULES = ["formula", "derive", "jvp"]
DERIVED = pytest.mark.parametrize("derived", [False, True], ids=["by a rule", "derived"])


def find_names(jaxpr: Any) -> set[str]:
    inner = [find_names(each) for eqn in jaxpr.eqns for each in jaxprs_in_params(eqn.params)]
    return {eqn.primitive.name for eqn in jaxpr.eqns}.union(*inner)


class TestJax:
    @pytest.mark.parametrize(
        ("kind", "derived"), [*((kind, False) for kind in KINDS), ("compiled", True), ("eager", True)]
    )
    def test_out_axes_may_be_none(self, kind: str, derived: bool) -> None:
        op = make(kind, derived=derived)
        for run in (jax.vmap(op, (0, None), (0, None)), jax.jit(jax.vmap(op, (0, None), (0, None)))):
            product, cube = run(X, W)
            np.testing.assert_allclose(product, X * W)
            np.testing.assert_allclose(cube, W**3, rtol=1e-6)

    @DERIVED
    def test_out_axes_of_a_batched_result_may_not(self, derived: bool) -> None:
        with pytest.raises(ValueError, match="out_axes"):
            jax.vmap(make(derived=derived), (0, 0), (0, None))(X, X)

    @DERIVED
    def test_a_cond_on_it_stays_a_cond(self, derived: bool) -> None:
        op = make(derived=derived)

        def choose(x: Any, w: Any) -> Any:
            product, cube = op(x, w)
            return jax.lax.cond(cube[0] > 0, jnp.sin, jnp.cos, product)

        mapped = jax.vmap(choose, (0, None))
        names = find_names(jax.make_jaxpr(mapped)(X, W).jaxpr)
        assert "cond" in names
        assert "select_n" not in names
        np.testing.assert_allclose(mapped(X, W), np.sin(X * W), rtol=1e-5)

    @DERIVED
    def test_nested_maps_share_it(self, derived: bool) -> None:
        op = make(derived=derived)
        rows = jnp.stack([X, 2 * X])
        mapped = jax.vmap(jax.vmap(op, (0, None), (0, None)), (0, None), (0, None))
        np.testing.assert_allclose(mapped(rows, W)[1], W**3, rtol=1e-6)
        outer = jax.vmap(jax.vmap(op, (0, None), (0, None)), (0, 0), (0, 0))
        weights = jnp.stack([W, 3 * W])
        np.testing.assert_allclose(outer(rows, weights)[1], weights**3, rtol=1e-6)
        crossed = jax.vmap(jax.vmap(op, (None, 0), 0), (0, None), (0, 0))
        np.testing.assert_allclose(crossed(X, weights)[1], np.stack([weights**3] * 2), rtol=1e-6)

    @DERIVED
    @pytest.mark.parametrize("batched", [*itertools.product([False, True], repeat=3)], ids=str)
    def test_three_nested_maps_share_it_up_to_the_first_that_maps_what_it_reads(
        self, batched: tuple[bool, ...], derived: bool
    ) -> None:
        mapped: Any = make(derived=derived)
        plain: Any = compute
        is_shared = True
        for is_batched in reversed(batched):  # outside of one that does, a rule's result counts as batched
            is_shared = is_shared and not is_batched
            axes = ((0, 0 if is_batched else None), (0, None if is_shared else 0))
            mapped, plain = jax.vmap(mapped, *axes), jax.vmap(plain, *axes)
        x = jnp.arange(24.0).reshape(2, 2, 2, 3)
        w = W * jnp.arange(1.0, 1 + 2 ** sum(batched)).reshape(*[2] * sum(batched), 1)
        for actual, expected in zip(mapped(x, w), plain(x, w), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6)

    @DERIVED
    def test_an_empty_batch_has_results(self, derived: bool) -> None:
        product, cube = jax.vmap(make(derived=derived), (0, None))(X[:0], W)
        assert (product.shape, cube.shape) == ((0, 3), (0, 3))

    @DERIVED
    @pytest.mark.parametrize("rules", RULES)
    def test_its_gradient_counts_once(self, rules: str, derived: bool) -> None:
        op = make(rules=rules, derived=derived)

        def loss(run: Any, x: Any, w: Any) -> Any:
            product, cube = jax.vmap(run, (0, None), (0, None))(x, w)
            return product.sum() + (cube * jnp.arange(3)).sum()

        def loss_of_rows(run: Any, x: Any, w: Any) -> Any:
            product, cube = jax.vmap(run, (0, None), 0)(x, w)
            return (product * cube).sum()

        for chosen in (loss, loss_of_rows):
            for transform in (
                lambda f: jax.grad(f, (0, 1))(X, W),
                lambda f: jax.jit(jax.value_and_grad(f, (0, 1)))(X, W),
                lambda f: jax.jvp(f, (X, W), (W * X, W)),
                lambda f: jax.hessian(f, 1)(X, W),
                lambda f: jax.jvp(jax.grad(f, 1), (X, W), (X, W)),
            ):
                actual = transform(lambda x, w: chosen(op, x, w))  # noqa: B023
                expected = transform(lambda x, w: chosen(compute, x, w))  # noqa: B023
                jax.tree.map(
                    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), actual, expected
                )

    @DERIVED
    @pytest.mark.parametrize("rules", RULES)
    def test_a_derivative_inside_of_the_map_shares_it_too(self, rules: str, derived: bool) -> None:
        op = make(rules=rules, derived=derived)

        def pull(run: Any, x: Any, w: Any) -> Any:
            (product, cube), back = jax.vjp(run, x, w)
            return product, cube, back((product, jnp.ones(3)))

        axes = (0, None, (0, 0))
        actual = jax.vmap(lambda x, w: pull(op, x, w), (0, None), axes)(X, W)
        expected = jax.vmap(lambda x, w: pull(compute, x, w), (0, None), axes)(X, W)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), actual, expected)

    def test_a_mean_over_the_batch_is_shared(self) -> None:
        """A normalisation with its state, as an op."""

        def normalize(x: jax.Array, state: jax.Array) -> tuple[jax.Array, jax.Array]:
            mean = jax.lax.pmean(x, "batch")
            return x - mean, 0.9 * state + 0.1 * mean

        op = custom_op("shared::normalize", normalize)
        op.register_autograd(
            lambda ctx, g, of_state: (
                g - jax.lax.pmean(g, "batch") + 0.1 * jax.lax.pmean(of_state, "batch"),
                0.9 * of_state,
            )
        )
        runs = [jax.vmap(f, (0, None), (0, None), axis_name="batch") for f in (op, normalize)]

        def loss(run: Any, x: Any, state: Any) -> Any:
            values, after = run(x, state)
            return (values**2 * jnp.arange(1.0, 4.0)).sum() + (after**3).sum()

        for transform in (
            lambda f: f(X, W),
            lambda f: jax.jit(jax.grad(f, (0, 1)))(X, W),
            lambda f: jax.jvp(f, (X, W), (X * X, W * W)),
            lambda f: jax.hessian(f, (0, 1))(X, W),
        ):
            found, due = (transform(lambda x, state: loss(run, x, state)) for run in runs)  # noqa: B023
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, due)
        np.testing.assert_allclose(jax.jit(runs[0])(X, W)[1], 0.9 * W + 0.1 * X.mean(0), rtol=1e-6)

    def test_the_kernel_is_not_traced_again_for_a_signature(self) -> None:
        traces: list[Any] = []

        @custom_op("shared::counted")
        def counted(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            traces.append(x.shape)
            return compute(x, w)

        counted.register_autograd(lambda ctx, g, h: (g, h))
        jax.vmap(counted, (0, None), (0, None))(X, W)
        first = len(traces)
        jax.vmap(counted, (0, None), (0, None))(2 * X, W)
        assert len(traces) == first
        mapped = jax.make_jaxpr(jax.vmap(counted))(X, X)
        assert len(mapped.eqns) == 1


class TestTensors:
    @pytest.mark.parametrize("kind", KINDS)
    def test_out_dims_may_be_none(self, kind: str) -> None:
        x, w = map(oplib.Tensor.from_array, (X, W))
        cube = oplib.vmap(make(kind), in_dims=(0, None), out_dims=(0, None))(x, w)[1]
        np.testing.assert_allclose(cube.array, W**3, rtol=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_recorded_result_has_the_gradient_of_all_examples(self, kind: str) -> None:
        x, w = oplib.Tensor.from_array(X), oplib.Tensor.from_array(W, requires_grad=True)
        product, cube = oplib.vmap(make(kind), in_dims=(0, None))(x, w)
        (gradient,) = grad(product.sum() + cube.sum(), w)
        np.testing.assert_allclose(gradient.array, X.sum(0) + 2 * 3 * W**2, rtol=1e-5)


class TestRefusals:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("way", ["jax", "jit", "tensors"])
    def test_a_none_result_that_is_batched_names_op_rule_and_place(self, kind: str, way: str) -> None:
        op = make(kind)
        op.register_vmap(lambda info, dims, x, w: ((x * w, w * w * w), (None, None)))
        mapped = jax.jit(jax.vmap(op, (0, None))) if way == "jit" else jax.vmap(op, (0, None))
        values = X, W
        if way == "tensors":
            mapped = oplib.vmap(op, in_dims=(0, None))
            values = tuple(map(oplib.Tensor.from_array, values))
        with pytest.raises(
            ResultError,
            match=rf"shared::{kind}_formula: result 0 of the vmap rule at .*test_shared_results.py:\d+ is "
            r"batched, and its place of the batch axis is None. Got f32\[2,3\] for a batch of 2; the kernel "
            r"returns f32\[3\] for one example",
        ):
            mapped(*values)
