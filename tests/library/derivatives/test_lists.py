"""Formulas of ops with lists of tensors, optional ones, and several results."""

from __future__ import annotations

from typing import Any

import pytest

import oplib
from oplib import Tensor
from tests.library.rule_ops import register_with


def make_total(hint: Any) -> Any:
    def total(xs, y=None, k=1):
        result = xs[0]
        for x in xs[1:]:
            result = result + x
        return result * k if y is None else result * k + y

    hints = {"xs": list[hint], "y": hint | None, "k": int, "return": hint}
    return register_with("rule::total", total, hints=hints)


@pytest.mark.spec("003.13")
def test_a_list_gets_a_list_of_gradients_and_a_list_of_flags(jax_hint: Any) -> None:
    seen: list[Any] = []
    total = make_total(jax_hint)

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return [grad, grad * 2], None, None

    total.register_autograd(backward)
    x, y = oplib.tensor([1.0], requires_grad=True), oplib.tensor([2.0])
    total([x, y]).sum().backward()
    assert seen == [([True, False], False, False)]
    assert (x.grad.item(), y.grad) == (1.0, None)


@pytest.mark.spec("003.13")
@pytest.mark.parametrize("returned", ["None", "tuple", "short", "number inside"])
def test_gradients_of_a_list_must_have_the_structure_of_the_inputs(jax_hint: Any, returned: str) -> None:
    total = make_total(jax_hint)

    def backward(ctx, grad):
        first = {"None": None, "tuple": (grad, grad), "short": [grad], "number inside": [grad, 1.0]}[returned]
        return first, None, None

    total.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    is_a_tensor_missing = returned == "number inside" and jax_hint is not Tensor  # for Tensors no list at all
    told = "expected Variable or None" if is_a_tensor_missing else "same structure"
    with pytest.raises(RuntimeError, match=told):
        total([x, x]).sum().backward()
    assert x.grad is None


@pytest.mark.spec("003.13", "003.16")
def test_members_of_a_list_may_have_no_gradient(jax_hint: Any) -> None:
    total = make_total(jax_hint)
    total.register_autograd(lambda ctx, grad: ([grad, None], None, None))
    x, y = (oplib.tensor([1.0], requires_grad=True) for _ in range(2))
    total([x, y]).sum().backward()
    assert (x.grad.item(), y.grad) == (1.0, None)


@pytest.mark.spec("D.8")
def test_the_defaults_of_a_list_op_may_be_left_out_of_the_gradients(jax_hint: Any) -> None:
    total = make_total(jax_hint)
    total.register_autograd(lambda ctx, grad: ([grad, grad], None))
    x = oplib.tensor([1.0], requires_grad=True)
    total([x, x]).sum().backward()
    assert x.grad.item() == 2.0


def test_an_optional_tensor_gets_a_gradient_when_it_is_given(jax_hint: Any) -> None:
    total = make_total(jax_hint)
    total.register_autograd(lambda ctx, grad: ([grad], grad * 3 if ctx.needs_input_grad[1] else None, None))
    x, y = (oplib.tensor([1.0], requires_grad=True) for _ in range(2))
    total([x], y).sum().backward()
    total([x]).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (2.0, 3.0)


def test_a_gradient_for_an_absent_tensor_raises(jax_hint: Any) -> None:
    total = make_total(jax_hint)
    total.register_autograd(lambda ctx, grad: ([grad], grad, None))
    with pytest.raises(RuntimeError, match="gradient different than None"):
        total([oplib.tensor([1.0], requires_grad=True)]).sum().backward()


def make_split(hint: Any) -> Any:
    def split(x, n):
        return [x * (i + 1) for i in range(n)], x * 10

    return register_with("rule::split", split, hints={"x": hint, "n": int, "return": tuple[list[hint], hint]})


@pytest.mark.spec("003.13")
def test_a_list_output_gives_one_list_of_gradients(jax_hint: Any) -> None:
    seen: list[Any] = []
    split = make_split(jax_hint)

    def backward(ctx, grads, last):
        seen.append((type(grads), len(grads)))
        total = last * 10
        for i, grad in enumerate(grads):
            total = total + grad * (i + 1)
        return total, None

    split.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    parts, last = split(x, 3)
    (parts[0] + parts[2]).sum().backward()
    assert x.grad.item() == 4.0
    assert seen == [(list, 3)]
    parts, last = split(x, 2)
    last.sum().backward()
    assert x.grad.item() == 14.0


def test_an_unused_result_gives_zeros_or_none(jax_hint: Any) -> None:
    seen: list[Any] = []
    split = make_split(jax_hint)

    def setup(ctx, inputs, output):
        ctx.set_materialize_grads(inputs[1] == 1)

    def backward(ctx, grads, last):
        seen.append((grads[0] is None, last is None))
        return last, None

    split.register_autograd(backward, setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    for n in (1, 2):
        split(x, n)[1].sum().backward()
    assert seen == [(False, False), (True, False)]


def test_numbers_among_results_pass_and_get_none(jax_hint: Any) -> None:
    seen: list[Any] = []

    def measure(x):
        return x * 2, 3, 4.5

    op = register_with("rule::measure", measure, hints={"x": jax_hint, "return": tuple[jax_hint, int, float]})

    def backward(ctx, grad, count, size):
        seen.append((count, size))
        return grad * 2

    op.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    y, count, size = op(x)
    assert (count, size) == (3, 4.5)
    y.sum().backward()
    assert seen == [(None, None)]
