"""User Functions that several tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class Split(Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 3


class Probe(Function):
    """The identity, which calls a function while its backward runs."""

    @staticmethod
    def forward(ctx, x, call):
        ctx.call = call
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.call()
        return grad, None


def make_function(
    forward: Callable[..., Any], backward: Callable[..., Any] | None = None, **members: Any
) -> type[Function]:
    """Makes a Function named Made; what can be called is a rule, and static."""
    rules = {"forward": forward, "backward": backward, **members}
    static = {name: staticmethod(rule) if callable(rule) else rule for name, rule in rules.items()}
    return type("Made", (Function,), {name: rule for name, rule in static.items() if rule is not None})
