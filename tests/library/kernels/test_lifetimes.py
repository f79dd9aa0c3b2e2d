"""Replacement and removal of kernels, rules and ops: compiled code does not outlive them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import oplib
from oplib.library import Library, custom_op, ops, register_autograd


def times(factor: int, hint: Any) -> Any:
    """A kernel."""

    def multiply(x):
        return x * factor

    multiply.__annotations__ = {"x": hint, "return": hint}
    return multiply


def call(op: Any) -> float:
    return op(oplib.tensor([1.0])).item()


@pytest.mark.usefixtures("told_already")
def test_kernels_are_a_stack_over_the_default_one(hint: Any) -> None:
    early = Library("lives", "IMPL")
    early.impl("op", times(2, hint), "CPU")
    base = Library("lives", "FRAGMENT")
    base.define("op(Tensor x) -> Tensor")
    base.impl("op", times(3, hint), "default")
    values = [call(ops.lives.op)]
    above = Library("lives", "IMPL")
    above.impl("op", times(5, hint), "CPU")
    values.append(call(ops.lives.op))
    for library in (above, early):
        library._destroy()
        values.append(call(ops.lives.op))
    assert values == [2.0, 5.0, 2.0, 3.0]


def test_a_formula_ends_with_its_library_and_the_op_stays(hint: Any) -> None:
    base, rules = Library("lives", "FRAGMENT"), Library("lives", "IMPL")
    base.define("op(Tensor x) -> Tensor")
    base.impl("op", times(3, hint), "default")
    register_autograd("lives::op", lambda ctx, grad: grad * 7, lib=rules)
    x = oplib.tensor([1.0], requires_grad=True)
    ops.lives.op(x).sum().backward()
    assert x.grad.item() == 7.0
    rules._destroy()
    with pytest.raises(NotImplementedError, match="no autograd formula was registered"):
        ops.lives.op(x).sum().backward()
    assert call(ops.lives.op) == 3.0


def test_handles_of_a_destroyed_op_raise_and_its_graphs_run_on(hint: Any) -> None:
    base = Library("lives", "FRAGMENT")
    base.define("op(Tensor x) -> Tensor")
    base.impl("op", times(3, hint), "default")
    register_autograd("lives::op", lambda ctx, grad: grad * 7, lib=base)
    packet, overload = ops.lives.op, ops.lives.op.default
    x = oplib.tensor([1.0], requires_grad=True)
    total = packet(x).sum()
    base._destroy()
    for handle in (packet, overload):
        with pytest.raises(RuntimeError, match="lives::op: the op is not defined any more"):
            call(handle)
    total.backward()
    assert x.grad.item() == 7.0


def test_all_handles_call_the_op_of_the_last_definition(hint: Any) -> None:
    old = custom_op("lives::op", times(2, hint))
    handles = [old, ops.lives.op, ops.lives.op.default]
    assert [call(handle) for handle in handles] == [2.0] * 3
    new = custom_op("lives::op", times(4, hint))
    assert [call(handle) for handle in [*handles, new, pickle.loads(pickle.dumps(old))]] == [4.0] * 5


def test_a_kernel_that_is_switched_off_gives_way_at_once(hint: Any) -> None:
    op = custom_op("lives::op", times(4, hint))
    op.register_kernel("cpu", times(9, hint))
    values = [call(op)]
    with op.set_kernel_enabled("cpu", False):
        values.append(call(op))
        op.register_kernel("cpu", times(6, hint))
        values.append(call(op))
    assert [*values, call(op)] == [9.0, 4.0, 4.0, 6.0]
