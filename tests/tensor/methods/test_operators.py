"""Python's operators on Tensors."""

from __future__ import annotations

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.tensor import box, tensor, upcalls

FORWARD = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    operator.pow: "pow",
    operator.matmul: "matmul",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.iadd: "add_",
    operator.isub: "sub_",
    operator.imul: "mul_",
    operator.itruediv: "div_",
    operator.ipow: "pow_",
}
REFLECTED = {
    operator.add: "add",
    operator.sub: "rsub",
    operator.mul: "mul",
    operator.truediv: "rdiv",
    operator.pow: "rpow",
    operator.lt: "gt",
    operator.ge: "le",
    operator.eq: "eq",
}
OPERANDS = [2, 2.5, True, 1j, np.float64(2), np.ones(1), tensor([2.0])]


@pytest.mark.parametrize("other", [*OPERANDS, jnp.ones(1)], ids=lambda other: type(other).__name__)
@pytest.mark.parametrize("use", FORWARD, ids=lambda use: use.__name__)
def test_an_operator_calls_its_op(use: Any, other: Any, calls: list[Any]) -> None:
    x = tensor([1.0])
    use(x, other)
    assert [(name, args[0] is x, args[1] is other) for name, args, _ in calls] == [(FORWARD[use], True, True)]


@pytest.mark.parametrize("other", OPERANDS[:-1], ids=lambda other: type(other).__name__)
@pytest.mark.parametrize("use", REFLECTED, ids=lambda use: use.__name__)
def test_an_operator_with_the_tensor_on_the_right_is_its_own(use: Any, other: Any, calls: list[Any]) -> None:
    x = tensor([1.0])
    use(other, x)
    assert [(name, args[0] is x) for name, args, _ in calls] == [(REFLECTED[use], True)]


def test_a_matrix_on_the_left_stays_there(calls: list[Any]) -> None:
    x, left = tensor([1.0]), np.ones((1, 1))
    _ = left @ x
    assert calls == [("matmul", (left, x), {})]


def test_sign_and_index_operators_call_their_ops(calls: list[Any]) -> None:
    x = tensor([1.0])
    _ = (-x, abs(x), x[0:1], +x)
    x[0] = 2.0
    assert calls == [
        ("neg", (x,), {}),
        ("abs", (x,), {}),
        ("getitem", (x, slice(0, 1)), {}),
        ("setitem_", (x, 0, 2.0), {}),
    ]


@pytest.mark.parametrize("other", ["text", None, [1.0], {}])
def test_what_is_no_operand_is_left_to_python(other: Any) -> None:
    x = tensor([1.0])
    assert (x == other) is False
    assert (x != other) is True
    for use in (operator.add, operator.lt, operator.matmul, operator.isub):
        with pytest.raises(TypeError, match=r"not supported between|unsupported operand"):
            use(x, other)


def test_a_tensor_of_torch_is_told_from_other_classes_that_are_left_to_python() -> None:
    of_torch = type("Tensor", (), {"__module__": "torch", "shape": (2,), "dtype": "float32"})
    own = type("Parameter", (of_torch,), {})
    for other in (of_torch(), own()):
        for use in (operator.add, operator.eq, operator.isub, lambda x, y: y * x):
            with pytest.raises(ArgumentTypeError, match=r"Got f32\[2\], of type .* oplib\.tensor\(t\)"):
                use(tensor([1.0]), other)


def test_another_class_may_answer_from_the_right() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "other"

    assert tensor([1.0]) + Other() == "other"


def test_tensors_are_keys_by_identity() -> None:
    x, y = tensor([1.0]), tensor([1.0])
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1


def test_iteration_goes_along_the_first_dimension(calls: list[Any]) -> None:
    x = tensor([[1.0], [2.0]])
    assert len(list(x)) == 2
    assert calls == [("getitem", (x, 0), {}), ("getitem", (x, 1), {})]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(tensor(1.0))


def test_membership_compares_with_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(upcalls), "eq", lambda x, other: box(x.array == other))
    assert 2.0 in tensor([1.0, 2.0])
    assert 3 not in tensor([1.0, 2.0])
    with pytest.raises(ArgumentError, match=r"Tensor\.__contains__ only supports Tensor or scalar\. Got 'a'"):
        _ = "a" in tensor([1.0])


def test_round_is_the_function_of_oplib_and_recorded():
    x = oplib.tensor([2.5, -1.234], requires_grad=True)
    assert round(x).tolist() == oplib.round(x).tolist() == [2.0, -1.0]
    assert round(x, 1).tolist() == oplib.round(x, decimals=1).tolist()
    assert round(x).requires_grad


def test_items_cannot_be_deleted() -> None:
    x = oplib.arange(3.0)
    with pytest.raises(
        TypeError, match=r"Tensor: it does not support deleting items\. Got index 0\..*x\[mask\]"
    ):
        del x[0]
