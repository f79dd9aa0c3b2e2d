"""Programs at the corners of the tape: hooks, second passes, writes without history, overlapping views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import oplib

from .programs import leaf

pytest.importorskip("torch")

PAIRS = {
    "topk": lambda lib, x: lib.topk(x, 2),
    "sort": lambda lib, x: lib.sort(x),
    "max": lambda lib, x: lib.max(x, 1),
    "kthvalue": lambda lib, x: lib.kthvalue(x, 1),
    "median": lambda lib, x: lib.median(x, 1),
    "mode": lambda lib, x: lib.mode(x, 1),
    "cummax": lambda lib, x: lib.cummax(x, 1),
    "max_pool1d": lambda lib, x: lib.nn.functional.max_pool1d(x, 2, return_indices=True),
    "aminmax": lambda lib, x: lib.aminmax(x, dim=1),
}


def square(lib: Any, *, grad: bool = False) -> Any:
    return lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=grad)


def write_and_read(lib: Any, write: Callable[[Any], Any], *, grad: bool = False) -> Any:
    """Writes a view of a tensor; returns the tensor, and the gradient of the leaf behind it."""
    start = leaf(lib, 1, 2, 3, 4)
    x = start * 2 if grad else start.detach()
    write(x)
    if grad:
        (x * x).sum().backward()
    return x, start.grad


@pytest.mark.parametrize("op", PAIRS)
def test_a_hook_of_an_op_that_gives_places_gets_no_gradient_for_them(assert_agrees, op):
    def program(lib):
        x = lib.tensor([[3.0, 1.0, 2.0], [4.0, 0.0, 5.0]], requires_grad=True)
        seen: list[Any] = []
        first = PAIRS[op](lib, x)[0]
        first.grad_fn.register_prehook(lambda grads: tuple(None if one is None else one * 2 for one in grads))
        first.grad_fn.register_hook(
            lambda results, grads: seen.append([len(results), *(one is None for one in grads)])
        )
        first.sum().backward()
        return seen, x.grad

    assert_agrees(program)


@pytest.mark.parametrize("name", ["maximum", "minimum", "max", "min"])
def test_the_gradient_of_an_extremum_depends_on_no_item(assert_agrees, name):
    def program(lib):
        x, y = leaf(lib, 1, 2, 2), leaf(lib, 2, 2, 1)
        grads = lib.autograd.grad(getattr(lib, name)(x, y).sum(), (x, y), create_graph=True)
        (whole,) = lib.autograd.grad(getattr(lib, name)(x), x, create_graph=True)
        weighted = lib.autograd.grad((getattr(lib, name)(x, y) * x).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(weighted[0].sum(), x)
        return grads, [one.requires_grad for one in (*grads, whole)], second

    assert_agrees(program)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_the_gradients_of_a_choice_of_items_depend_on_no_item(assert_agrees, name):
    def program(lib):
        x, y = leaf(lib, 1, 2, float("nan")), leaf(lib, 2, 2, 1)
        grads = lib.autograd.grad(getattr(lib, name)(x, y).sum(), (x, y), create_graph=True)
        weighted = lib.autograd.grad((getattr(lib, name)(x, y)[:2] * x[:2]).sum(), (x, y), create_graph=True)
        second = lib.autograd.grad(sum(one.sum() for one in weighted), (x, y))
        return grads, [one.requires_grad for one in grads], second

    assert_agrees(program)


TURNS = {
    "transpose_": lambda x: x.transpose_(0, 1),
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "unsqueeze_ at the end": lambda x: x.unsqueeze_(2),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(0),
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("kind", ["read after", "saved before", "used before"])
def test_a_tensor_of_a_graph_may_get_another_shape_without_history(assert_agrees, turn, kind):
    def program(lib):
        x = square(lib, grad=True)
        y = x * 2
        z = y * y if kind == "saved before" else y * 3
        with lib.no_grad():
            TURNS[turn](y)
        (y * 5 if kind == "read after" else z).sum().backward()
        return x.grad, y.shape == lib.ones(1).expand(y.shape).shape

    assert_agrees(program)


def test_a_leaf_that_got_another_shape_refuses_the_gradient_of_the_old_one(assert_agrees):
    def program(lib):
        x = lib.ones(2, 3, requires_grad=True)
        y = x * 2
        with lib.no_grad():
            x.t_()
        y.sum().backward()

    assert_agrees(program)


def test_a_leaf_gets_a_gradient_of_its_shape_if_only_dims_of_size_1_were_added():
    x = oplib.ones(2, 3, requires_grad=True)
    y = x * 2
    with oplib.no_grad():
        x.unsqueeze_(2)
    y.sum().backward()
    assert x.grad.shape == (2, 3, 1)


OVERLAPS = {
    "the first of each window": lambda x: x.unfold(0, 2, 1)[:, 0].add_(1),
    "the last of each window": lambda x: x.unfold(0, 3, 1)[:, 2].mul_(3),
    "windows that touch": lambda x: x.unfold(0, 2, 2).add_(1),
    "a window of windows": lambda x: x.unfold(0, 2, 1)[1].fill_(7),
    "strides": lambda x: x.as_strided((2, 2), (2, 1)).add_(1),
    "a row of expanded ones": lambda x: x.expand(3, 4)[1].add_(2),
    "a number in windows": lambda x: x.unfold(0, 2, 1).fill_(2),
    "a number in a part of windows": lambda x: x.unfold(0, 2, 1)[1:].fill_(2),
    "a column of expanded ones": lambda x: x.expand(3, 4)[:, 1].add_(2),
    "expanded ones": lambda x: x.expand(3, 4).add_(2),
}

UNIFORM = {
    "zeros in expanded ones": lambda x: x.expand(3, 4).zero_(),
    "a number in expanded ones": lambda x: x.expand(3, 4).fill_(2),
    "a number in a column of expanded ones": lambda x: x.expand(3, 4)[:, 1].fill_(2),
}


@pytest.mark.parametrize("kind", UNIFORM)
def test_one_value_may_be_written_into_items_that_share_memory(assert_agrees, kind):
    assert_agrees(lambda lib: write_and_read(lib, UNIFORM[kind]))


def test_items_that_one_value_replaced_get_no_gradient():
    value, grad = write_and_read(oplib, UNIFORM["a number in a column of expanded ones"], grad=True)
    assert value.tolist() == [2.0, 2.0, 6.0, 8.0]  # torch writes, and fails in the backward
    assert grad.tolist() == [8.0, 0.0, 24.0, 32.0]


@pytest.mark.parametrize("kind", OVERLAPS)
@pytest.mark.parametrize("grad", [False, True])
def test_a_view_is_written_where_no_item_would_get_two_values(assert_agrees, kind, grad):
    assert_agrees(lambda lib: write_and_read(lib, OVERLAPS[kind], grad=grad))


SECOND = {
    "lerp": lambda lib, x: lib.lerp(x, x * 1, 0.3),
    "add": lambda lib, x: lib.add(x, x, alpha=2),
    "sub": lambda lib, x: lib.sub(x, 1, alpha=2),
    "mul": lambda lib, x: x * 2,
    "div": lambda lib, x: x / 2,
    "exp": lambda lib, x: x.exp(),
    "addcmul": lambda lib, x: lib.addcmul(x, lib.ones(2), lib.ones(2), value=3),
    "lerp by a tensor": lambda lib, x: lib.lerp(x, x * 1, lib.tensor([0.5, 0.5])),
}


@pytest.mark.parametrize("op", SECOND)
def test_a_number_that_is_an_option_does_not_prevent_a_second_pass(assert_agrees, op):
    def program(lib):
        x = leaf(lib, 1, 2)
        y = SECOND[op](lib, x).sum()
        y.backward()
        y.backward()
        return x.grad

    assert_agrees(program)


@pytest.mark.parametrize("places", ["the first", "the second", "both"])
def test_the_constant_side_of_hypot_may_be_written_after_the_call(assert_agrees, places):
    def program(lib):
        x, y = leaf(lib, 3, 1), lib.tensor([[4.0], [2.0]], requires_grad=places == "both")
        length = lib.hypot(x, y) if places != "the second" else lib.hypot(y, x)
        if places != "both":
            y.add_(1)
        (grad,) = lib.autograd.grad(length.sum(), x, create_graph=True)
        return grad, lib.autograd.grad(grad.sum(), x)

    assert_agrees(program)


def test_the_constant_sign_of_copysign_may_be_written_after_the_call(assert_agrees):
    def program(lib):
        x, sign = leaf(lib, 3, -1), lib.tensor([[-4.0], [2.0]])
        y = lib.copysign(x, sign)
        sign.neg_()
        return lib.autograd.grad(y.sum(), x)

    assert_agrees(program)


@pytest.mark.parametrize("write", ["pow_", "t_", "sub_", "zero_", "unsqueeze_"])
def test_a_retained_gradient_is_that_of_the_written_tensor(assert_agrees, write):
    def program(lib):
        x = square(lib, grad=True)
        y = x * 2
        y.retain_grad()
        getattr(y, write)(*{"pow_": (2,), "sub_": (1,), "unsqueeze_": (0,)}.get(write, ()))
        (y * y).sum().backward()
        return y.grad, x.grad

    assert_agrees(program)


def test_a_gradient_can_be_deleted(assert_agrees):
    def program(lib):
        x = leaf(lib, 1, 2)
        (x * 2).sum().backward()
        del x.grad
        missing = x.grad is None
        (x * 3).sum().backward()
        return missing, x.grad

    assert_agrees(program)


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("inside", [False, True])
def test_an_inference_tensor_gets_another_shape_in_inference_mode_only(assert_agrees, turn, inside):
    def program(lib):
        with lib.inference_mode():
            x = lib.ones(2, 3)
            view = x[:1]
        with lib.inference_mode(inside):
            return TURNS[turn](x).sum(), TURNS[turn](view).sum()

    assert_agrees(program)
