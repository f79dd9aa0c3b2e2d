"""Eager calls whose cost stands out, over the bare cached jit of one multiplication, with torch beside."""

from __future__ import annotations

import importlib
import importlib.util
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

import oplib

from .rounds import Case, Effort, compare, time_call
from .sample_ops import SHAPE, make_arrays
from .table import Row

TITLE = "eager calls over the bare cached jit of x * y"
CONTROL = "jax.jit of x * y"

BOUNDS: dict[str, float | None] = {
    "zeros(8, 8)": 0.8,
    "ones(8, 8)": 0.8,
    "full((8, 8), 2.)": 0.8,
    "zeros_like(y)": 0.8,
    "tensor([1., 2.])": 4.5,
    "cat([w, y], 1)": 2.0,
    "w.chunk(2, 1), each times 1.": 6.0,
    "w[:, 2:4] * 2.": 3.5,
    "y[3] + 1.": 2.5,
    "w.view(64) * 2.": 2.6,
    "w.t() @ y": 2.6,
    "x[3] = 1.": 2.5,
    "y[0, 0].item()": 2.5,
    "float(loss)": 2.5,
    "randn(8, 8)": 2.8,
    "x.add_(y)": 1.4,
    "x.mul_(.9)": 1.4,
    "x.add_(y, alpha=.1)": 1.4,
    "x.addcmul_(y, y)": 1.4,
    "x.copy_(y)": 1.4,
    "x.zero_()": 0.8,
    "where(y > 1, w, y)": 1.7,
    "embedding(places, w)": 1.7,
    "cross_entropy(w, classes)": 2.2,
    "(w * y).sum().backward()": 6.5,
    "the same with a tensor hook": 8.5,
    "a Function, forward and backward": 11.0,
}


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row for each call; where torch is installed, a note gives its time as the same ratio."""
    arrays = make_arrays(2)
    bare = Case(jax.jit(operator.mul), *arrays)
    torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    its = _make_calls(torch, torch.tensor, torch.autograd.Function) if torch else {}
    mine = _make_calls(oplib, oplib.tensor, oplib.autograd.Function)
    for what, bound in BOUNDS.items():
        measured = compare(Case(mine[what]), bare, effort)
        note = ""
        if its:
            ratio = time_call(Case(its[what]), effort) / min(measured.control)
            note = f"torch eager: {ratio:.2f}"
        yield Row(what, CONTROL, bound, measured, note=note)


def _make_calls(lib: Any, tensor: Callable[[Any], Any], function: type[Any]) -> dict[str, Callable[[], Any]]:
    """Makes the calls for one of both libraries, which name them alike."""
    w, y = (tensor(np.asarray(array)) for array in make_arrays(2))
    w.requires_grad_()
    calls = _without_tape(lib, tensor, y) | _recorded(lib, tensor, w, y)
    return calls | _backward(w, y, _make_function(function))


def _without_tape(lib: Any, tensor: Callable[[Any], Any], y: Any) -> dict[str, Callable[[], Any]]:
    x, loss = lib.ones(*SHAPE), y.sum()
    return {
        "zeros(8, 8)": lambda: lib.zeros(8, 8),
        "ones(8, 8)": lambda: lib.ones(8, 8),
        "full((8, 8), 2.)": lambda: lib.full((8, 8), 2.0),
        "zeros_like(y)": partial(lib.zeros_like, y),
        "tensor([1., 2.])": lambda: tensor([1.0, 2.0]),
        "x[3] = 1.": lambda: operator.setitem(x, 3, 1.0),
        "y[0, 0].item()": lambda: y[0, 0].item(),  # noqa: PLW0108  the view is part of the call
        "float(loss)": loss.__float__,
        "randn(8, 8)": lambda: lib.randn(8, 8),
        "y[3] + 1.": lambda: y[3] + 1.0,
        "x.add_(y)": lambda: x.add_(y),
        "x.mul_(.9)": lambda: x.mul_(0.9),
        "x.add_(y, alpha=.1)": lambda: x.add_(y, alpha=0.1),
        "x.addcmul_(y, y)": lambda: x.addcmul_(y, y),
        "x.copy_(y)": lambda: x.copy_(y),
        "x.zero_()": x.zero_,
    }


def _recorded(lib: Any, tensor: Callable[[Any], Any], w: Any, y: Any) -> dict[str, Callable[[], Any]]:
    functional = lib.nn.functional
    larger, places = y > 1, tensor(np.arange(8))
    return {
        "cat([w, y], 1)": lambda: lib.cat([w, y], 1),
        "w.chunk(2, 1), each times 1.": lambda: [half * 1.0 for half in w.chunk(2, 1)],
        "w[:, 2:4] * 2.": lambda: w[:, 2:4] * 2.0,
        "w.view(64) * 2.": lambda: w.view(64) * 2.0,
        "w.t() @ y": lambda: w.t() @ y,
        "where(y > 1, w, y)": lambda: lib.where(larger, w, y),
        "embedding(places, w)": lambda: functional.embedding(places, w),
        "cross_entropy(w, classes)": lambda: functional.cross_entropy(w, places),
    }


def _backward(w: Any, y: Any, square: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    def step(make: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            w.grad = None
            make().backward()
            return w.grad

        return run

    def hooked() -> Any:
        product = w * y
        product.register_hook(lambda _: None)
        return product.sum()

    return {
        "(w * y).sum().backward()": step(lambda: (w * y).sum()),  # noqa: PLW0108  the graph is made anew
        "the same with a tensor hook": step(hooked),
        "a Function, forward and backward": step(lambda: square(w).sum()),
    }


def _make_function(function: type[Any]) -> Callable[[Any], Any]:
    class Square(function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2.0 * x * grad

    return Square.apply
