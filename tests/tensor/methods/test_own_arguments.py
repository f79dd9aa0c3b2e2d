"""Methods of Tensor: those that are written out call the op of their name, the others are its function."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.registry import METHODS
from oplib.errors import ArgumentError
from oplib.tensor import Tensor, tensor, upcalls
from oplib.tensor.methods.own_arguments import TensorMethods

TESTED = {"reshape", "view", "expand", "permute", "T", "mT", "H", "mH", "where", "backward"} | {
    *("reshape_as", "view_as", "expand_as", "real", "imag", "fill_diagonal_"),
}

OTHERS: list[tuple[Any, tuple[str, tuple[Any, ...], dict[str, Any]]]] = [
    (lambda x: x.reshape(2, 3), ("reshape", ((2, 3),), {})),
    (lambda x: x.reshape((2, 3)), ("reshape", ((2, 3),), {})),
    (lambda x: x.view(-1), ("view", ((-1,),), {})),
    (lambda x: x.expand([2, 3]), ("expand", ([2, 3],), {})),
    (lambda x: x.permute(1, 0), ("permute", ((1, 0),), {})),
    (lambda x: x.reshape_as(tensor([[1, 2]])), ("reshape", ([1, 2],), {})),
    (lambda x: x.view_as(tensor([[1, 2]])), ("view", ([1, 2],), {})),
    (lambda x: x.expand_as(tensor([[1, 2]])), ("expand", ([1, 2],), {})),
    (lambda x: x.real, ("real", (), {})),
    (lambda x: x.imag, ("imag", (), {})),
    (lambda x: x.backward(), ("run_backward", (None, None, False), {"inputs": None})),
]


@pytest.mark.parametrize(
    "name", ["exp", "relu", "add", "true_divide", "max", "sum", "squeeze", "mul_", "fill_"]
)
def test_a_method_that_is_not_written_out_is_the_function(name: str) -> None:
    assert getattr(Tensor, name) is METHODS[name]


def test_such_methods_take_the_arguments_of_the_op() -> None:
    x = tensor([[3.0, 4.0]])
    assert x.add(2, alpha=3).tolist() == [[9.0, 10.0]]
    assert x.sum(1, keepdim=True).tolist() == [[7.0]]
    assert x.max(1).values.tolist() == [4.0]
    assert x.sub_(2, alpha=3) is x
    assert x.tolist() == [[-3.0, -2.0]]


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


def test_the_conjugates_of_turned_matrices_are_computed_for_complex_matrices_only() -> None:
    matrix = tensor([[1.0, 2.0 + 3.0j]])
    assert matrix.H.tolist() == matrix.mH.tolist() == [[1.0], [2.0 - 3.0j]]
    real = tensor([[1.0, 2.0]])
    assert real.H._base is real
    with pytest.raises(ArgumentError, match=r"H: it is only supported on matrices .* Got f32\[1,1,2\]\. Use"):
        _ = real.reshape(1, 1, 2).H


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
    assert names == TESTED


def test_an_op_that_does_not_exist_is_an_attribute_error_that_says_why() -> None:
    with pytest.raises(AttributeError, match=r"upcalls\.nothing: no function of this name was entered"):
        _ = upcalls.nothing


def test_an_op_without_a_method_is_no_attribute() -> None:
    assert not hasattr(Tensor, "nothing")


def test_every_public_attribute_of_a_tensor_says_what_it_is() -> None:
    public = [name for name in dir(Tensor) if not name.startswith("_") and hasattr(Tensor, name)]
    assert [name for name in public if not getattr(Tensor, name).__doc__] == []


def test_the_conjugate_transpose_is_one_of_a_matrix_or_of_a_number():
    assert tensor([[1.0, 2.0j]]).H.tolist() == [[1.0], [-2.0j]]
    assert tensor(3.0j).H.tolist() == -3.0j
    for values in ([1.0], [[[1.0]]]):
        with pytest.raises(ArgumentError, match="H: it is only supported on matrices"):
            _ = tensor(values).H


MATRICES = [(3, 3), (2, 5), (7, 3), (4, 3), (9, 2), (5, 1), (0, 3), (3, 3, 3)]


@pytest.mark.parametrize("sizes", MATRICES, ids=str)
@pytest.mark.parametrize("wrap", [False, True])
def test_a_diagonal_is_filled_as_in_numpy(sizes, wrap):
    tensor = oplib.arange(float(np.prod(sizes))).reshape(sizes)
    expected = tensor.numpy().copy()
    assert tensor.fill_diagonal_(-2, wrap) is tensor
    if expected.size:  # numpy fails at none
        np.fill_diagonal(expected, -2, wrap)
    assert tensor.tolist() == expected.tolist()


def test_a_diagonal_does_not_start_again_by_default():
    expected = np.zeros((7, 2))
    np.fill_diagonal(expected, 1)
    assert oplib.zeros(7, 2).fill_diagonal_(1).tolist() == expected.tolist()


def test_the_diagonal_of_a_view_is_filled_in_its_base():
    base = oplib.zeros(4, 4)
    base[1:, 1:].t().fill_diagonal_(1)
    assert base.tolist() == np.diag([0.0, 1.0, 1.0, 1.0]).tolist()
    cube = oplib.zeros(2, 3, 3, 3)
    cube[1].fill_diagonal_(1)
    assert cube.sum().item() == 3
    assert [cube[1, i, i, i].item() for i in range(3)] == [1, 1, 1]


def test_a_filled_diagonal_has_no_gradient():
    x = oplib.ones(2, 2, requires_grad=True)
    y = x * 2
    y.fill_diagonal_(5)
    (y * y).sum().backward()
    assert x.grad.tolist() == [[0, 8], [8, 0]]
    with pytest.raises(ArgumentError, match=r"fill_diagonal_: it takes a matrix, .* Got f32\[2,3,3\]"):
        oplib.zeros(2, 3, 3).fill_diagonal_(1)
    with pytest.raises(ArgumentError, match=r"Got f32\[3\]"):
        oplib.zeros(3).fill_diagonal_(1)
