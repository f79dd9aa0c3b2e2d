"""The list of views of a root: what a write looks at, and what it marks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import oplib


def _add(base: oplib.Tensor) -> None:
    base.add_(1.0)


def _set_row(base: oplib.Tensor) -> None:
    base[0] = 1.0


def _copy(base: oplib.Tensor) -> None:
    base.copy_(oplib.zeros(3, 2))


def _add_without_grad(base: oplib.Tensor) -> None:
    with oplib.no_grad():
        base.add_(1.0)


def _count_lines(write: Callable[[oplib.Tensor], None], base: oplib.Tensor) -> int:
    """Counts the lines that run; a loop over 1,000 views runs at least 1,000."""
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        write(base)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.spec("D.44")
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("write", [_add, _set_row, _copy, _add_without_grad])
def test_a_write_looks_at_no_view_that_nobody_has_read(
    write: Callable[[oplib.Tensor], None], *, requires_grad: bool
):
    counts: list[int] = []
    for number in (1, 1000):
        base = oplib.ones(3, 2).requires_grad_(requires_grad) * 1.0
        views = [base[1] for _ in range(number)]
        write(base)
        write(base)  # the first one has marked the views
        counts.append(_count_lines(write, base))
        assert views[-1].tolist() == base[1].tolist()
    assert counts[1] < counts[0] + 500


@pytest.mark.parametrize("number", [1, 1000])
def test_a_write_without_grad_marks_the_views_that_may_not_be_rebased(number: int):
    base = oplib.ones(3).requires_grad_() * 1.0
    ordinary = [base[:2] for _ in range(number)]
    first, second = base.split([1, 2])
    with oplib.no_grad():
        base.add_(1.0)
    assert ordinary[-1].grad_fn is not None
    for view in (first, second):
        with pytest.raises(RuntimeError, match="returns multiple views"):
            _ = view.grad_fn


def test_a_view_that_becomes_the_result_of_a_function_is_marked_by_a_write_without_grad():
    class First(oplib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: oplib.Tensor) -> oplib.Tensor:
            with oplib.enable_grad():
                return x[:2]

        @staticmethod
        def backward(ctx: Any, grad: oplib.Tensor) -> oplib.Tensor:
            return oplib.cat([grad, oplib.zeros(1)])

    base = oplib.ones(3).requires_grad_() * 1.0
    view = First.apply(base)
    with oplib.no_grad():
        base.add_(1.0)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        _ = view.grad_fn


def test_a_view_made_without_grad_is_a_leaf_of_a_root_that_requires_grad_later():
    base = oplib.ones(3)
    with oplib.no_grad():
        view = base[:2]
    base.requires_grad_()
    assert view.requires_grad


def test_the_views_of_a_tensor_that_is_transposed_are_turned_back_once():
    base = oplib.arange(6.0).reshape(2, 3).clone()
    first, second = base.unbind(0)
    with oplib.no_grad():
        third = base[:, 1]
    base.t_()
    assert first.tolist() == [0.0, 1.0, 2.0]
    assert second.tolist() == [3.0, 4.0, 5.0]
    assert third.tolist() == [1.0, 4.0]
