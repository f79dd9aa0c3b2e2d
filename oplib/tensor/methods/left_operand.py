"""An array on the left of an operator, and a Tensor on its right: the operator is the Tensor's.

JAX's arrays ask what stands on their right for ``__jax_array__`` and then compute by themselves: the gradient
would be lost, and the same product were a Tensor or an array as its factors stand. What that method returns
decides: of anything that is no array JAX says that it cannot, and Python asks the Tensor. So it has to know
who calls. JAX offers no priority of operands as numpy does.
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
    """Tells whether an operator of an array on the left asks for a conversion.

    Args:
        frame: of the method that converts.
    """
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_code in _find_operators()


@lru_cache(maxsize=1)
def _find_operators() -> frozenset[CodeType]:
    """The code of the operators of JAX's arrays and of its tracers, which is the same."""
    methods = [getattr(kind, f"__{name}__", None) for kind in jax.Array.__subclasses__() for name in _NAMES]
    return frozenset(method.__code__ for method in methods if inspect.isfunction(method))
