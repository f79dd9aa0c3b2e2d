"""``oplib.visual.first_nan``: the call that made the first NaN of a step."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.modes import modes
from oplib.visual import first_nan

FLOATS = [oplib.float32, oplib.bfloat16, oplib.float16, oplib.complex64]


def leaf(*items: float) -> Any:
    return oplib.tensor(items, requires_grad=True)


@pytest.fixture
def weights() -> dict[str, Any]:
    return {"low": leaf(-1.0, 2.0), "zero": leaf(0.0, 1.0), "fine": leaf(1.0, 2.0)}


def run_as_it_is(step: Any) -> Any:
    return step


@pytest.mark.parametrize("compiled", [run_as_it_is, oplib.jit])
def test_it_names_op_line_and_operand_of_a_forward(compiled: Any, weights: dict[str, Any]) -> None:
    def step(x):
        loss = (weights["low"].log() * x).sum()  # the line
        loss.backward()
        return loss

    found = first_nan(compiled(step), oplib.ones(2))
    assert (found.op, found.in_backward, found.is_given) == ("log", False, False)
    assert found.place.endswith("# the line")
    assert found.operands == ("self: weights['low'], f32[2], from -1 to 2",)


@pytest.mark.parametrize("compiled", [run_as_it_is, oplib.jit])
def test_it_names_the_node_of_a_backward(compiled: Any, weights: dict[str, Any]) -> None:
    def step(x):
        root = weights["zero"].sqrt()  # the line
        (root * x).sum().backward()

    found = first_nan(compiled(step), oplib.tensor([0.0, 3.0]))
    assert (found.op, found.in_backward, found.is_given) == ("SqrtBackward0", True, False)
    assert found.place.endswith("# the line")
    assert found.operands == ("grad_outputs[0]: f32[2], from 0 to 3", "result: f32[2], from 0 to 1")
    assert str(found).startswith("The backward of SqrtBackward0 made the first nan, called at ")


def test_a_compiled_backward_runs_node_by_node(weights: dict[str, Any]) -> None:
    def step():
        (weights["zero"].sqrt() * 0).sum().backward()

    with oplib.autograd.compiled_autograd._enable(oplib.jit):
        assert first_nan(step).op == "SqrtBackward0"


def test_a_nan_that_comes_with_the_arguments_is_not_made(weights: dict[str, Any]) -> None:
    found = first_nan(lambda batch: batch["x"] * weights["fine"], {"x": leaf(float("nan"), 3.0)})
    assert (found.op, found.is_given) == ("mul", True)
    assert found.operands[0] == "self: batch['x'], f32[2], from 3 to 3, 1 of 2 items nan"
    assert "was given the first nan" in str(found)


@pytest.mark.usefixtures("forget_ops")
def test_ops_of_users_and_the_backward_of_a_function_are_seen(weights: dict[str, Any]) -> None:
    @oplib.custom_op("first_nan::scaled_log", autograd="derive")
    def scaled_log(x: jax.Array, scale: int) -> jax.Array:
        return jnp.log(x) * scale

    class Wrong(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.log()

    found = first_nan(scaled_log, weights["low"], 3)
    assert (found.op, found.operands[1]) == ("first_nan::scaled_log", "scale: 3")
    found = first_nan(lambda: Wrong.apply(weights["low"]).sum().backward())
    assert (found.op, found.place.rpartition(": ")[2]) == ("log", "return grad * x.log()")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_floating_dtype_is_looked_at(dtype: Any) -> None:
    x = oplib.tensor([0.0, 1.0], dtype=dtype)
    assert first_nan(lambda: x / x).op == "div"
    assert first_nan(lambda: (x + 1) / 2) is None


def test_a_list_of_tensors_and_an_attribute_have_names() -> None:
    class Model:
        def __init__(self) -> None:
            self.layers = [oplib.tensor([float("inf")])]

        def run(self, x):
            return oplib.cat([self.layers[0] * 0, x])

    found = first_nan(Model().run, oplib.ones(2))
    assert (found.op, found.operands[0]) == ("mul", "self: self.layers[0], f32[1], from inf to inf")
    nans = [oplib.ones(1), oplib.tensor([float("nan")])]
    assert first_nan(oplib.cat, nans).operands[1] == "tensors[1]: tensors[1], f32[1], 1 of 1 items nan"


def test_an_error_after_the_nan_does_not_hide_it_and_one_without_passes() -> None:
    def fail(x):
        x.log()
        raise ValueError("bad")

    assert first_nan(fail, leaf(-1.0)).op == "log"
    with pytest.raises(ValueError, match="bad"):
        first_nan(fail, leaf(1.0))
    with pytest.raises(ArgumentTypeError, match="expected a function"):
        first_nan(oplib.ones(2))


def test_the_modes_of_the_thread_are_as_before(weights: dict[str, Any]) -> None:
    def list_modes() -> tuple[Any, ...]:
        state = modes.state
        return state.anomaly, state.check_nan, state.watchers, state.observers, state.node_hooks

    before = list_modes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first_nan(lambda: weights["fine"].sum().backward())
        with pytest.raises(ArgumentError):
            first_nan(lambda: oplib.ones(2).reshape(3))
    assert list_modes() == before
    assert weights["fine"].grad.tolist() == [1.0, 1.0]
