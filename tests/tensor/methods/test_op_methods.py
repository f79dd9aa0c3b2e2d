"""The methods and operators of Tensor on the ops that really stand above them, compared with torch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, TracingError

X = np.array([[0.5, 1.5, 2.5], [3.0, 0.25, 1.0]], np.float32)
Y = np.array([2.0, 0.5, 1.25], np.float32)

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "x + y": lambda x, y: x + y,
    "2 + x": lambda x, y: 2 + x,
    "x - 2.5": lambda x, y: x - 2.5,
    "2.5 - x": lambda x, y: 2.5 - x,
    "3 * x * y": lambda x, y: 3 * x * y,
    "x / y": lambda x, y: x / y,
    "1 / x": lambda x, y: 1 / x,
    "x ** 2": lambda x, y: x**2,
    "x ** y": lambda x, y: x**y,
    "2 ** x": lambda x, y: 2**x,
    "-x": lambda x, y: -x,
    "+x": lambda x, y: +x,
    "abs(x - 1)": lambda x, y: abs(x - 1),
    "x @ x.T": lambda x, y: x @ x.T,
    "x @ y": lambda x, y: x @ y,
    "x.mm(x.t())": lambda x, y: x.mm(x.t()),
    "x.add(y, alpha=2)": lambda x, y: x.add(y, alpha=2),
    "x.sub(y, alpha=2)": lambda x, y: x.sub(y, alpha=2),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.log(),
    "sqrt": lambda x, y: x.sqrt(),
    "sin": lambda x, y: x.sin() + x.cos(),
    "tanh": lambda x, y: x.tanh() * x.sigmoid(),
    "relu": lambda x, y: (x - 1).relu(),
    "sum": lambda x, y: x.sum(),
    "sum(0)": lambda x, y: x.sum(0),
    "sum keepdim": lambda x, y: x.sum((0, 1), keepdim=True),
    "mean": lambda x, y: x.mean(-1) + x.mean(),
    "max": lambda x, y: x.max(),
    "max(1)": lambda x, y: x.max(1)[0],
    "reshape": lambda x, y: x.reshape(3, 2) * x.reshape((3, -1)),
    "view": lambda x, y: x.view(-1) * 2,
    "transpose": lambda x, y: x.transpose(0, 1) * x.mT,
    "expand": lambda x, y: y.expand(2, 3) * x,
    "x[0]": lambda x, y: x[0] * 2,
    "x[:, 1:]": lambda x, y: x[:, 1:],
    "clone": lambda x, y: x.clone() * x,
    "iteration": lambda x, y: sum(row.sum() for row in x),
    "where": lambda x, y: x.where(x > 1, y),
    "add_": lambda x, y: (x * 1).add_(y),
    "mul_": lambda x, y: (x * 1).mul_(y).sub_(1).div_(2),
    **{
        name: lambda x, y, name=name: getattr(x * 1, name)()
        for name in ("exp_", "sin_", "sqrt_", "tanh_", "neg_", "log_", "cos_", "sigmoid_", "relu_")
    },
    "pow_": lambda x, y: (x * 1).pow_(3),
    "+=": lambda x, y: operator.iadd(x * 1, y),
    "fill_": lambda x, y: (x * 1).fill_(3.0) * x,
    "zero_": lambda x, y: (x * 1).zero_() + x,
    "copy_": lambda x, y: (x * 1).copy_(y) * 2,
    "half": lambda x, y: x.half().float() * 2,
    "to": lambda x, y: x.to(y) * y,
    "detach": lambda x, y: x.detach() * x,
}


def run(program: Any, make: Callable[[Any], Any]) -> list[Any]:
    """Returns the value and the two gradients of a program."""
    x, y = make(X), make(Y)
    result = program(x, y)
    (result * result).sum().backward()
    found = [result.detach(), x.grad, y.grad]
    return [None if value is None else np.asarray(value) for value in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = run(PROGRAMS[name], lambda values: oplib.tensor(values, requires_grad=True))
    theirs = run(PROGRAMS[name], lambda values: torch.tensor(values, requires_grad=True))
    for found, expected in zip(ours, theirs, strict=True):
        if expected is None:
            assert found is None
        else:
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("compare", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_are_those_of_numpy(compare: str) -> None:
    use = getattr(operator, compare)
    for other in (1.5, Y):
        operand = other if isinstance(other, float) else oplib.tensor(other)
        np.testing.assert_array_equal(use(oplib.tensor(X), operand).numpy(), use(X, other))


def test_a_written_item_changes_the_tensor_and_its_version() -> None:
    x = oplib.zeros(2, 3)
    x[1, 1:] = oplib.tensor([5.0, 6.0])
    x[0] = 1
    assert x.tolist() == [[1.0, 1.0, 1.0], [0.0, 5.0, 6.0]]
    assert x._version == 2


def test_in_place_changes_are_seen_through_detach() -> None:
    x = oplib.zeros(2)
    y = x.detach()
    x += 3
    assert y.tolist() == [3.0, 3.0]
    assert y._version == 1


def test_membership_looks_at_every_item() -> None:
    assert 2.5 in oplib.tensor(X)
    assert 7 not in oplib.tensor(X)


def test_a_leaf_that_requires_grad_is_not_written() -> None:
    x = oplib.zeros(2, requires_grad=True)
    with pytest.raises(AutogradError, match="leaf"):
        x += 1


def test_conversions_pass_the_gradient_back_in_the_dtype_of_the_input() -> None:
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    (x.to("bfloat16") * 3).sum().backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (oplib.float32, [3.0, 3.0])


@pytest.mark.devices(2)
def test_a_move_passes_the_gradient_back_to_where_the_input_is() -> None:
    first, second = jax.devices()[:2]
    x = oplib.tensor([1.0, 2.0], device=first, requires_grad=True)
    y = x.to(second)
    assert y.array.devices() == {second}
    (y * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]
    assert x.grad.array.devices() == {first}


def test_a_result_can_be_shown_but_not_deep_copied_nor_read_by_numpy() -> None:
    y = oplib.tensor([1.0], requires_grad=True) * 2
    assert repr(y) == "tensor([2.], grad_fn=<MulBackward0>)"
    with pytest.raises(AutogradError, match=r"detach\(\)\.numpy\(\)"):
        y.numpy()


def test_a_branch_on_a_traced_tensor_names_what_was_read() -> None:
    def choose(array: Any) -> Any:
        x = oplib.Tensor.from_array(array)
        return (x if (x > 0) else -x).array

    with pytest.raises(TracingError, match=r"bool\(\): a traced tensor has no values yet\. Got bool\[\]"):
        jax.jit(choose)(1.0)


def test_a_whole_step_can_be_traced() -> None:
    @jax.jit
    def gradient(array: Any) -> Any:
        x = oplib.Tensor.from_array(array, requires_grad=True)
        (x * x * oplib.full_like(x, 2.0)).sum().backward()
        assert x.grad is not None
        return x.grad.array

    np.testing.assert_allclose(gradient(X), 4 * X)


def test_a_new_default_dtype_reaches_ops_that_were_compiled_before() -> None:
    x = oplib.tensor([1, 2])
    assert (x / 2).dtype == (x * 1.5).dtype == oplib.float32
    oplib.set_default_dtype(oplib.float16)
    try:
        assert (x / 2).dtype == (x * 1.5).dtype == oplib.float16
    finally:
        oplib.set_default_dtype(oplib.float32)
    assert (x / 2).dtype == (x * 1.5).dtype == oplib.float32
