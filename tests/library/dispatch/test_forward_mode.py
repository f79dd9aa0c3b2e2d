"""Tangents through registered ops of every kind: by the rule that exists, or an error."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.errors import MissingRuleError

X, T = [1.0, 2.0], [3.0, 4.0]


def compiled(x: jax.Array) -> jax.Array:
    return x * x


def plain(x: oplib.Tensor) -> oplib.Tensor:
    return x * x


def on_host(x: np.ndarray) -> np.ndarray:
    return x * x


KERNELS = {"compiled": compiled, "eager": plain, "host": on_host}
kinds = pytest.mark.parametrize("kind", KERNELS)


def make_op(kind: str, **options: Any) -> Any:
    op = oplib.custom_op(f"forward::{kind}", KERNELS[kind], **options)
    if kind == "host":
        op.register_fake(lambda x: x)
    return op


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def scaled_backward(ctx: Any, grad: Any) -> Any:
    """Scales the true tangent by seven, so that a test recognizes the rule that has run."""
    return 14 * grad * ctx.saved_tensors[0]


def scaled_jvp(primals: Any, tangents: Any) -> Any:
    return primals[0] * primals[0], 10 * primals[0] * tangents[0]


def tangent_of(call: Any, *, grad: bool = False) -> Any:
    with dual_level():
        dual = make_dual(oplib.tensor(X, requires_grad=grad), oplib.tensor(T))
        tangent = unpack_dual(call(dual)).tangent
        return None if tangent is None else tangent.tolist()


@kinds
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "recorded"])
def test_a_jvp_rule_gives_the_tangent(kind: str, grad: bool) -> None:
    op = make_op(kind)
    op.register_autograd(scaled_backward, setup_context=save)
    op.register_jvp(scaled_jvp)
    assert tangent_of(op, grad=grad) == [30.0, 80.0]


@kinds
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "recorded"])
def test_without_one_the_backward_formula_is_transposed(kind: str, grad: bool) -> None:
    op = make_op(kind)
    op.register_autograd(scaled_backward, setup_context=save)
    assert tangent_of(op, grad=grad) == [42.0, 112.0]


def test_a_derived_op_has_the_derivative_of_its_kernel() -> None:
    assert tangent_of(make_op("compiled", autograd="derive")) == [6.0, 16.0]


def test_plain_python_on_arrays_is_differentiated_too() -> None:
    op = oplib.custom_op("forward::uncompiled", compiled, compile=False)
    op.register_autograd(scaled_backward, setup_context=save)
    assert tangent_of(op) == tangent_of(op, grad=True) == [42.0, 112.0]


def test_intermediates_saved_by_setup_are_computed_again() -> None:
    def save_double(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0] * 2)

    op = make_op("compiled")
    op.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0], setup_context=save_double)
    assert tangent_of(op) == [6.0, 16.0]


def test_a_composite_op_is_looked_into() -> None:
    library = oplib.library.Library("forward_composite", "DEF")
    library.define("square(Tensor x) -> Tensor")
    library.impl("square", plain, "CompositeImplicitAutograd")
    try:
        assert tangent_of(oplib.ops.forward_composite.square) == [6.0, 16.0]
    finally:
        library._destroy()


@kinds
def test_the_kernel_runs_once_and_sees_no_tangent(kind: str) -> None:
    seen: list[Any] = []

    def watched(x: Any) -> Any:
        seen.append(unpack_dual(x).tangent if isinstance(x, oplib.Tensor) else None)
        return KERNELS[kind](x)

    watched.__annotations__ = KERNELS[kind].__annotations__
    op = oplib.custom_op("forward::watched", watched)
    if kind == "host":
        op.register_fake(lambda x: x)
    op.register_autograd(scaled_backward, setup_context=save)
    tangent_of(op)
    seen.clear()
    tangent_of(op)
    assert seen == {"compiled": []}.get(kind, [None])


@kinds
def test_an_op_without_a_rule_raises_before_its_kernel_runs(kind: str) -> None:
    op = make_op(kind)
    text = rf"forward::{kind}: Trying to use forward AD .* Argument 'x' carries a tangent, f32\[2\]"
    with pytest.raises(MissingRuleError, match=text):
        tangent_of(op)
    assert op(oplib.tensor(X)).tolist() == [1.0, 4.0]


def test_a_nonlinear_formula_is_not_transposed() -> None:
    op = make_op("compiled")
    op.register_autograd(scaled_backward, setup_context=save, nonlinear=True)
    with pytest.raises(MissingRuleError, match=r"declared nonlinear.*register_jvp"):
        tangent_of(op)


def test_a_declared_constant_has_no_tangent() -> None:
    op = make_op("compiled")
    op.register_autograd(constant="it counts")
    assert tangent_of(op) is None


def test_integer_results_have_no_tangent_beside_those_that_have() -> None:
    def kernel(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x * x, x.astype(int)

    op = oplib.custom_op("forward::two", kernel, autograd="derive")
    with dual_level():
        square, count = op(make_dual(oplib.tensor(X), oplib.tensor(T)))
        assert unpack_dual(square).tangent.tolist() == [6.0, 16.0]
        assert unpack_dual(count).tangent is None


def test_a_result_marked_as_not_differentiable_has_no_tangent() -> None:
    def kernel(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x * x, x * 2

    def mark(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.mark_non_differentiable(output[1])

    op = oplib.custom_op("forward::marked", kernel)
    op.register_autograd(lambda ctx, grad, _: 2 * grad * ctx.saved_tensors[0], setup_context=mark)
    with dual_level():
        square, double = op(make_dual(oplib.tensor(X), oplib.tensor(T)))
        assert unpack_dual(square).tangent.tolist() == [6.0, 16.0]
        assert unpack_dual(double).tangent is None


def test_rules_run_uncompiled_where_compiling_is_off() -> None:
    op = make_op("compiled")
    op.register_autograd(scaled_backward, setup_context=save)
    oplib.config.compile_kernels = False
    try:
        assert tangent_of(op) == tangent_of(op, grad=True) == [42.0, 112.0]
        assert tangent_of(lambda dual: (dual * dual).sum()) == 22.0
    finally:
        oplib.config.compile_kernels = True


def test_lists_and_absent_tensors_have_tangents_in_their_places() -> None:
    def kernel(xs: list[jax.Array], bias: jax.Array | None = None) -> jax.Array:
        total = sum(xs, jnp.zeros(2))
        return total if bias is None else total * bias

    op = oplib.custom_op("forward::many", kernel, autograd="derive")
    x = oplib.tensor(X)
    assert tangent_of(lambda dual: op([x, dual, dual])) == [6.0, 8.0]
    assert tangent_of(lambda dual: op([x, x], dual)) == [6.0, 16.0]


def test_an_op_that_writes_raises_and_writes_nothing() -> None:
    def kernel(x: jax.Array, out: jax.Array) -> jax.Array:
        return out * x

    op = oplib.custom_op(
        "forward::scale", kernel, mutates_args=("out",), schema="(Tensor x, Tensor(a!) out) -> ()"
    )
    out = oplib.tensor([1.0, 1.0])
    with pytest.raises(MissingRuleError, match="forward::scale: Trying to use forward AD"):
        tangent_of(lambda dual: op(dual, out))
    assert out.tolist() == [1.0, 1.0]


@kinds
def test_a_tangent_by_rule_is_differentiable_by_tangent_and_primal(kind: str) -> None:
    op = make_op(kind)
    op.register_autograd(scaled_backward, setup_context=save)
    x, t = oplib.tensor(X, requires_grad=True), oplib.tensor(T, requires_grad=True)
    with dual_level():
        tangent = unpack_dual(op(make_dual(x, t))).tangent
        by_x, by_t = oplib.autograd.grad(tangent.sum(), (x, t))
    assert by_x.tolist() == [42.0, 56.0]
    assert by_t.tolist() == [14.0, 28.0]


@kinds
def test_a_gradient_by_formula_has_a_tangent(kind: str) -> None:
    op = make_op(kind)
    op.register_autograd(scaled_backward, setup_context=save)
    x, t = oplib.tensor(X, requires_grad=True), oplib.tensor(T)
    with dual_level():
        (found,) = oplib.autograd.grad(op(make_dual(x, t)).sum(), x)
        assert unpack_dual(found).tangent.tolist() == [42.0, 56.0]
