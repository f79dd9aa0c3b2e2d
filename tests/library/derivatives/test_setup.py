"""The values that the formula of an op saves, and their use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib import Tensor
from oplib.library import custom_op
from tests.library.rule_ops import make_scale, register_with


def test_save_for_backward_takes_only_tensors_and_none(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(
        lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1])
    )
    with pytest.raises(TypeError, match="save_for_backward"):
        scale(oplib.tensor([1.0], requires_grad=True))


def test_saved_none_comes_back_as_none(jax_hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(jax_hint)

    def backward(ctx, grad):
        seen.append([value is None for value in ctx.saved_tensors])
        return grad

    scale.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(None, inputs[0], output)
    )
    scale(oplib.tensor([1.0], requires_grad=True)).sum().backward()
    assert seen == [[True, False, False]]


def test_a_result_marked_non_differentiable_does_not_require_grad(jax_hint: Any) -> None:
    def both(x):
        return x * 2, x * 3

    op = register_with("rule::both", both, hints={"x": jax_hint, "return": tuple[jax_hint, jax_hint]})
    op.register_autograd(
        lambda ctx, first, second: first * 2,
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1]),
    )
    first, second = op(oplib.tensor([1.0], requires_grad=True))
    assert (first.requires_grad, second.requires_grad) == (True, False)


def test_a_second_backward_raises_and_a_retained_one_does_not(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    result = scale(oplib.tensor([1.0], requires_grad=True)).sum()
    result.backward(retain_graph=True)
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_a_saved_tensor_written_later_raises(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = oplib.tensor([1.0], requires_grad=True)
    result = scale(x).sum()
    with oplib.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@pytest.mark.spec("003.19")
def test_a_mutable_schema_cannot_have_a_formula() -> None:
    @custom_op("rule::write", mutates_args=("x",))
    def write(x: Tensor) -> None:
        x.add_(1)

    with pytest.raises(RuntimeError, match="functional"):
        write.register_autograd(lambda ctx, grad: grad)


def test_intermediates_are_linked_again_in_a_double_backward() -> None:
    @custom_op("rule::normalize")
    def normalize(x: jax.Array) -> jax.Array:
        return x / jnp.sqrt((x * x).sum())

    def setup(ctx, inputs, output):
        inverse = 1 / jnp.sqrt((inputs[0] * inputs[0]).sum())
        ctx.save_for_backward(inputs[0], inverse)

    @normalize.register_autograd(setup_context=setup)
    def backward(ctx, grad):
        x, inverse = ctx.saved_tensors
        return grad * inverse - x * inverse**3 * (grad * x).sum()

    value = jnp.array([0.5, -1.0, 2.0])
    plain = lambda x: (x / jnp.sqrt((x * x).sum()) * jnp.arange(3.0)).sum()  # noqa: E731
    x = oplib.Tensor.from_array(value, requires_grad=True)
    (first,) = oplib.autograd.grad((normalize(x) * jnp.arange(3.0)).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad((first * first).sum(), x)
    expected = jax.grad(lambda x: (jax.grad(plain)(x) ** 2).sum())(value)
    assert first.tolist() == pytest.approx(jax.grad(plain)(value).tolist(), rel=1e-5)
    assert second.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_a_saved_output_that_equals_its_input_keeps_its_place_in_the_graph() -> None:
    """An op like the identity: saved input and saved output have equal numbers but different histories."""

    @custom_op("rule::reverse")
    def reverse(x: jax.Array) -> jax.Array:
        return x

    reverse.register_autograd(
        lambda ctx, grad: -grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    x = oplib.tensor([3.0], requires_grad=True)
    (first,) = oplib.autograd.grad(reverse(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    # d first / dx = -1 * d output / dx, and the op's own rule says d output / dx = -output
    assert (first.item(), second.item()) == (-3.0, 3.0)


@pytest.mark.parametrize("read", [lambda ctx: ctx[0], lambda ctx: [*ctx]], ids=["subscript", "unpacking"])
def test_a_formula_that_reads_its_ctx_as_residuals_learns_of_saved_tensors(read: Any) -> None:
    op = custom_op("rule::as_in_jax", lambda x: x * x, schema="(Tensor x) -> Tensor")
    op.register_autograd(lambda residuals, g: (g * 2 * read(residuals),))
    with pytest.raises(TypeError, match=r"rule::as_in_jax: ctx is subscripted.*ctx\.saved_tensors"):
        jax.grad(lambda x: op(x).sum())(jnp.ones(2))
