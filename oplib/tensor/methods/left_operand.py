"""Operators with an array on the left and a Tensor on the right: the Tensor computes them.

JAX's arrays call ``__jax_array__`` of their right operand and then compute by themselves. The gradient would
be lost, and the type of a product would depend on the order of its factors. If this method returns an object
that is not an array, JAX gives up and Python asks the Tensor. So the method has to know its caller. JAX has
no priority of operands as numpy has.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import CodeType, FrameType

import jax

_NAMES = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("and", "or", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge"),
)


def is_asked_by_operator(frame: FrameType | None) -> bool:
    """Returns whether an operator of an array on the left asks for the conversion.

    Args:
        frame: the frame of the converting method.
    """
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_code in _find_operators()


@lru_cache(maxsize=1)
def _find_operators() -> frozenset[CodeType]:
    """The code of the operators of JAX's arrays, which its tracers share."""
    methods = [getattr(kind, f"__{name}__", None) for kind in jax.Array.__subclasses__() for name in _NAMES]
    return frozenset(method.__code__ for method in methods if inspect.isfunction(method))
