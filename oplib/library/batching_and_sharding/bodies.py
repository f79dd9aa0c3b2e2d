"""The jaxprs inside of the equations of a jaxpr."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

OPAQUE = frozenset({"ffi_call", "pure_callback", "io_callback"})
"""Primitives into which neither JAX nor XLA can look."""


def calls_any(jaxpr: Any, names: Collection[str]) -> bool:
    """Tells whether one of these primitives occurs in a jaxpr, closed or not, or in a nested one."""
    ahead: list[Any] = [jaxpr]
    seen: set[int] = set()  # many equations share one body
    while ahead:
        closed = ahead.pop()
        body = getattr(closed, "jaxpr", closed)
        if id(body) in seen:
            continue
        seen.add(id(body))
        for equation in body.eqns:
            if equation.primitive.name in names:
                return True
            ahead += find_bodies(equation)
    return False


def find_bodies(equation: Any) -> list[Any]:
    """Returns the jaxprs, closed or not, among the parameters of an equation."""
    groups = [value if isinstance(value, (tuple, list)) else (value,) for value in equation.params.values()]
    return [value for group in groups for value in group if hasattr(value, "eqns")]
