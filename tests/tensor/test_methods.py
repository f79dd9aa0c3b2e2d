"""Methods of Tensor: each is one call of the op of its name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from oplib.errors import ArgumentError
from oplib.tensor import Tensor, tensor, upcalls
from oplib.tensor.methods import TensorMethods

UNARY = ("neg", "abs", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "relu", "t", "clone")
UNARY_IN_PLACE = (
    *("abs_", "neg_", "exp_", "log_", "sqrt_", "sin_", "cos_", "tanh_", "sigmoid_", "relu_"),
    "zero_",
)
ARITHMETIC = ("add", "sub", "mul", "div", "pow", "matmul", "mm")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BINARY_IN_PLACE = ("add_", "sub_", "mul_", "div_", "pow_", "fill_", "copy_")
BINARY = ARITHMETIC + COMPARISONS + BINARY_IN_PLACE
TESTED_BY_HAND = {
    *("true_divide", "sum", "mean", "max", "reshape", "view", "expand", "transpose"),
    *("permute", "squeeze", "unsqueeze"),
    *("T", "mT", "where", "backward"),
}

OTHERS: list[tuple[Any, tuple[str, tuple[Any, ...], dict[str, Any]]]] = [
    (lambda x: x.true_divide(2), ("div", (2,), {})),
    (lambda x: x.add(2, alpha=3), ("add", (2,), {"alpha": 3})),
    (lambda x: x.sub_(2, alpha=3), ("sub_", (2,), {"alpha": 3})),
    (lambda x: x.sum(), ("sum", (None, False), {})),
    (lambda x: x.sum(0, keepdim=True, dtype="int32"), ("sum", (0, True), {"dtype": "int32"})),
    (lambda x: x.mean((0, 1)), ("mean", ((0, 1), False), {})),
    (lambda x: x.max(), ("max", (), {})),
    (lambda x: x.max(1, True), ("max", (1, True), {})),
    (lambda x: x.reshape(2, 3), ("reshape", ((2, 3),), {})),
    (lambda x: x.reshape((2, 3)), ("reshape", ((2, 3),), {})),
    (lambda x: x.view(-1), ("view", ((-1,),), {})),
    (lambda x: x.expand([2, 3]), ("expand", ([2, 3],), {})),
    (lambda x: x.transpose(0, 1), ("transpose", (0, 1), {})),
    (lambda x: x.permute(1, 0), ("permute", ((1, 0),), {})),
    (lambda x: x.squeeze(0), ("squeeze", (0,), {})),
    (lambda x: x.unsqueeze(0), ("unsqueeze", (0,), {})),
    (lambda x: x.backward(), ("run_backward", (None, None, False), {"inputs": None})),
]


@pytest.mark.parametrize("name", UNARY + UNARY_IN_PLACE)
def test_a_method_without_arguments_calls_its_op(name: str, calls: list[Any]) -> None:
    x = tensor([1.0])
    getattr(x, name)()
    assert calls == [(name, (x,), {})]


@pytest.mark.parametrize("name", BINARY)
def test_a_method_with_an_operand_calls_its_op(name: str, calls: list[Any]) -> None:
    x = tensor([1.0])
    getattr(x, name)(2.0)
    assert calls == [(name, (x, 2.0), {})]


@pytest.mark.parametrize(("use", "expected"), OTHERS)
def test_a_method_hands_its_arguments_over(use: Any, expected: Any, calls: list[Any]) -> None:
    x = tensor([1.0])
    use(x)
    name, args, kwargs = expected
    assert calls == [(name, (x, *args), kwargs)]


def test_where_puts_the_condition_first(calls: list[Any]) -> None:
    x, condition = tensor([1.0]), tensor([True])
    x.where(condition, 0.0)
    assert calls == [("where", (condition, x, 0.0), {})]


def test_matrices_are_turned_by_the_ops_of_movement(calls: list[Any]) -> None:
    matrix = tensor([[1.0, 2.0]])
    _ = matrix.T, matrix.mT
    assert calls == [("permute", (matrix, (1, 0)), {}), ("transpose", (matrix, -2, -1), {})]


def test_turning_what_is_no_matrix_warns_or_raises_as_in_torch(calls: list[Any]) -> None:
    with pytest.warns(UserWarning, match=r"T: .* is deprecated in torch\. Got 1 dimensions\. Use x\.mT"):
        _ = tensor([1.0]).T
    with pytest.raises(ArgumentError, match=r"mT: it is only supported on matrices .* Got f32\[1\]\. Use"):
        _ = tensor([1.0]).mT
    with pytest.raises(ArgumentError, match=r"mT: it is only supported on matrices"):
        _ = tensor([1.0]).mH
    assert [name for name, _, _ in calls] == ["permute"]


def test_every_method_of_an_op_is_tested_here() -> None:
    names = {name for name, _ in inspect.getmembers(TensorMethods) if not name.startswith("_")}
    assert names == {*UNARY, *UNARY_IN_PLACE, *BINARY} | TESTED_BY_HAND


def test_an_op_that_does_not_exist_is_an_attribute_error_that_says_why() -> None:
    with pytest.raises(AttributeError, match=r"upcalls\.nothing: no function of this name was entered"):
        _ = upcalls.nothing


def test_an_op_without_a_method_is_no_attribute() -> None:
    assert not hasattr(Tensor, "nothing")
