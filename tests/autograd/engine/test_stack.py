"""A backward inside a backward inside a backward."""

import sys
import threading

import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.engine import stack


class Nest(Function):
    """The identity, whose backward runs another one below it."""

    @staticmethod
    def forward(ctx, x, depth, threads):
        ctx.depth, ctx.threads = depth, threads
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.threads.add(threading.get_ident())
        if ctx.depth:
            with oplib.enable_grad():
                x = oplib.tensor(1.0, requires_grad=True)
                Nest.apply(x, ctx.depth - 1, ctx.threads).backward()
            grad = grad + x.grad
        return grad, None, None


@pytest.mark.spec("004.4", "D.17")
@pytest.mark.parametrize("depth", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_nested_backwards_run_in_one_thread_at_any_depth(depth):
    limit = sys.getrecursionlimit()
    threads = set()
    x = oplib.tensor(1.0, requires_grad=True)
    Nest.apply(x, depth, threads).backward()
    assert x.grad.item() == depth + 1
    assert threads == {threading.get_ident()}
    assert sys.getrecursionlimit() == limit


@pytest.mark.spec("004.5")
def test_an_error_comes_through_seventy_levels_as_the_same_object():
    error = ValueError("deep")

    class Fail(Nest):
        @staticmethod
        def backward(ctx, grad):
            if not ctx.depth:
                raise error
            with oplib.enable_grad():
                Fail.apply(oplib.tensor(1.0, requires_grad=True), ctx.depth - 1, set()).backward()

    limit = sys.getrecursionlimit()
    with pytest.raises(ValueError, match="deep") as caught:
        Fail.apply(oplib.tensor(1.0, requires_grad=True), 70, set()).backward()
    assert caught.value is error
    assert sys.getrecursionlimit() == limit
    assert oplib.is_grad_enabled()


@pytest.mark.spec("D.17")
def test_an_endless_recursion_ends_with_a_recursion_error(monkeypatch):
    monkeypatch.setattr(stack, "_MOST_STEPS", 5)  # the end comes sooner, and is the same

    class Endless(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            with oplib.enable_grad():
                Endless.apply(oplib.tensor(1.0, requires_grad=True)).backward()

    with pytest.raises(RecursionError):
        Endless.apply(oplib.tensor(1.0, requires_grad=True)).backward()
