"""Programs of a rule that two implementations share: applied, differentiated, chained, traced anew."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import jax

from .rounds import Case

Function = Callable[..., Any]


def chaining(op: Function, number: int, *, is_compiled: bool = True) -> Case:
    """Makes a case that traces and compiles the gradient of a chain of calls, for a new shape every time."""

    def chain(x: Any, y: Any) -> Any:
        for _ in range(number):
            x = op(x, y)
        return x.sum()

    return compiling(jax.grad(chain, argnums=(0, 1)), is_compiled=is_compiled)


def apply_twice(op: Function) -> Function:
    """Returns the sum of the op at its own result."""
    return lambda x, y: op(op(x, y), y).sum()


def differentiate(op: Function) -> Function:
    """Returns the gradient of that by both arguments."""
    return jax.grad(apply_twice(op), argnums=(0, 1))


def compiling(function: Function, *, is_compiled: bool = True) -> Case:
    """Makes a case that traces, and compiles unless told otherwise, for a new shape every time."""
    widths = count(3)

    def compile_anew() -> None:
        shape = jax.ShapeDtypeStruct((2, next(widths)), "float32")
        traced = jax.jit(function).trace(shape, shape)
        if is_compiled:
            traced.lower().compile()

    return Case(compile_anew)
