"""Many threads that call, differentiate and register at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.library import Library, custom_op, ops
from tests.threads import run_in_threads, try_in_threads

from .sample_kernels import KINDS

COUNT = 8


@pytest.fixture(autouse=True)
def switch_often() -> Iterator[None]:
    """Makes threads switch a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def make_scale(hint: Any) -> Any:
    """An op whose formula needs the values that its own call has saved."""

    def kernel(x, by):
        return x * np.float32(by)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.by = inputs[1]

    kernel.__annotations__ = {"x": hint, "by": float, "return": hint}
    op = custom_op("threads::scale", kernel)
    op.register_autograd(
        lambda ctx, grad: (grad * ctx.by + 0 * ctx.saved_tensors[0], None), setup_context=setup
    )
    return op


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_has_its_own_arguments_context_and_gradient(kind: str) -> None:
    op = make_scale(KINDS[kind])

    def work(number: int) -> list[Any]:
        found = []
        for round_ in range(5):
            x = oplib.tensor([float(number), float(round_)], requires_grad=True)
            result = op(x, float(number % 4))
            result.sum().backward()
            found.append((result.tolist(), x.grad.tolist()))
        return found

    for number, found in enumerate(run_in_threads(work, COUNT)):
        by = float(number % 4)
        assert found == [([number * by, round_ * by], [by, by]) for round_ in range(5)]


def test_first_calls_at_one_moment_agree() -> None:
    for attempt in range(3):

        @custom_op(f"threads::first{attempt}")
        def double(x: jax.Array, by: int = 2) -> jax.Array:
            return x * by

        x = oplib.tensor([1.0])
        results = run_in_threads(lambda number, double=double, x=x: double(x, number % 3).tolist(), COUNT)
        assert results == [[float(number % 3)] for number in range(COUNT)]


@pytest.mark.spec("004.8")
def test_grad_mode_is_that_of_the_thread() -> None:
    op = make_scale(jax.Array)
    x = oplib.tensor([1.0], requires_grad=True)

    def work(number: int) -> bool:
        with oplib.set_grad_enabled(number % 2 == 0):
            return all(op(x, 2.0).requires_grad for _ in range(20))

    assert run_in_threads(work, COUNT) == [number % 2 == 0 for number in range(COUNT)]


def test_a_kernel_is_switched_for_all_threads() -> None:
    @custom_op("threads::switched")
    def switched(x: Tensor) -> Tensor:
        return x * 1

    switched.register_kernel("cpu", lambda x: x * 2)
    x = oplib.tensor([1.0])
    with switched.set_kernel_enabled("cpu", False):
        assert run_in_threads(lambda _: switched(x).item(), COUNT) == [1.0] * COUNT
    assert run_in_threads(lambda _: switched(x).item(), COUNT) == [2.0] * COUNT


def test_one_of_many_that_define_a_name_wins_and_all_call_it() -> None:
    libraries = [Library("threads", "FRAGMENT") for _ in range(COUNT)]

    def work(number: int) -> Any:
        libraries[number].define("raced(int x) -> int")
        libraries[number].impl("raced", lambda x: x + number, "default")
        return number

    results = try_in_threads(work, COUNT)
    (winner,) = [number for number in results if isinstance(number, int)]
    errors = [error for error in results if isinstance(error, Exception)]
    assert len(errors) == COUNT - 1
    assert all("registered multiple times" in str(error) for error in errors)
    assert ops.threads.raced(1) == 1 + winner


@pytest.mark.parametrize("kind", ["compiled", "eager"])
def test_calls_get_one_formula_or_the_other_while_another_is_registered(kind: str) -> None:
    op = make_scale(KINDS[kind])
    done = threading.Event()

    def register(number: int) -> None:
        for factor in (3.0, 5.0) * 3:
            op.register_autograd(lambda ctx, grad, factor=factor: (grad * factor, None))
        done.set()

    def call() -> set[float]:
        found: set[float] = set()
        while not found or not done.is_set():
            x = oplib.tensor([1.0], requires_grad=True)
            op(x, 2.0).sum().backward()
            found.add(x.grad.item())
        return found

    results = run_in_threads(lambda number: register(number) if number == 0 else call(), COUNT)
    assert set().union(*results[1:]) <= {2.0, 3.0, 5.0}


def test_ops_may_be_made_and_destroyed_while_others_are_called() -> None:
    op = make_scale(jax.Array)
    x = oplib.tensor([1.0])

    def work(number: int) -> float:
        for _ in range(10):
            if number % 2:
                library = Library("threads", "FRAGMENT")
                library.define(f"short{number}(Tensor x) -> Tensor")
                library.impl(f"short{number}", lambda x: x * 1, "default")
                assert getattr(ops.threads, f"short{number}")(x).item() == 1.0
                library._destroy()
            else:
                assert op(x, 3.0).item() == 3.0
        return 1.0

    assert run_in_threads(work, COUNT) == [1.0] * COUNT
    assert not any(name.startswith("short") for name in ops.threads)


@pytest.mark.spec("004.8")
def test_one_leaf_gets_the_gradients_of_all_threads() -> None:
    op = make_scale(jax.Array)
    x = oplib.tensor([1.0], requires_grad=True)
    run_in_threads(lambda number: [op(x, 2.0).sum().backward() for _ in range(5)], COUNT)
    assert x.grad.item() == 2.0 * 5 * COUNT
