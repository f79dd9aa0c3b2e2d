"""Python's operators, which contain the fast paths of their ops from the first use of the op."""

from __future__ import annotations

from collections.abc import Sequence

from oplib.library.dispatch.inlined_overloads import Branch, inline_overloads
from oplib.tensor.methods.operators import TensorOperators

OPERATORS = {
    "abs": ("__abs__",),
    "add": ("__add__", "__radd__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_left_shift": ("__lshift__",),
    "bitwise_not": ("__invert__",),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_right_shift": ("__rshift__",),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "div": ("__truediv__",),
    "eq": ("__eq__",),
    "floor_divide": ("__floordiv__",),
    "ge": ("__ge__",),
    "gt": ("__gt__",),
    "le": ("__le__",),
    "lt": ("__lt__",),
    "matmul": ("__matmul__",),
    "mul": ("__mul__", "__rmul__"),
    "ne": ("__ne__",),
    "neg": ("__neg__",),
    "pow": ("__pow__",),
    "rdiv": ("__rtruediv__",),
    "remainder": ("__mod__",),
    "rsub": ("__rsub__",),
    "sub": ("__sub__",),
}

WRITTEN = {name: getattr(TensorOperators, name) for names in OPERATORS.values() for name in names}
"""The operators as they are written, which go up to the op by its name."""


def inline_operators(name: str, branches: Sequence[Branch]) -> None:
    """Inlines overloads of an op into its operators."""
    if not branches:
        return
    for operator in OPERATORS.get(name, ()):
        method = WRITTEN[operator]
        if getattr(TensorOperators, operator) is not method:
            continue  # inlined already, by another form of the function
        inlined = inline_overloads(method, *branches)
        inlined.__name__, inlined.__qualname__ = operator, f"{TensorOperators.__name__}.{operator}"
        inlined.__module__ = method.__module__
        setattr(TensorOperators, operator, inlined)
