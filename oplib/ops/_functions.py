"""Every built-in op as a function: what ``oplib.add`` is, and what Tensor methods call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from . import _linalg, _pointwise, _reduce
from ._choosers import choose_by_other, choose_reversed, choose_scaled
from ._registrar import describe_function, make_function, register_all

ROWS = (*_pointwise.ROWS, *_reduce.ROWS, *_linalg.ROWS)
OVERLOADS = register_all(ROWS)


def _make_functions() -> dict[str, Callable[..., Any]]:
    functions: dict[str, Callable[..., Any]] = {}
    for row in ROWS:
        if row.name == row.op:
            functions[row.op] = make_function(row, OVERLOADS[row.name])
    for name in ("mul", "div"):
        functions[name] = choose_by_other(OVERLOADS[f"{name}.Tensor"], OVERLOADS[f"{name}.Scalar"])
    for name in ("add", "sub"):
        functions[name] = choose_scaled(
            OVERLOADS[f"{name}.Tensor"], OVERLOADS[f"{name}.Scalar"], OVERLOADS[f"{name}.scaled"]
        )
    functions["rsub"] = choose_reversed(functions["sub"], OVERLOADS["rsub.Scalar"])
    functions["rdiv"] = choose_reversed(functions["div"], OVERLOADS["rdiv.Scalar"])
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = "oplib.ops"
        function.__doc__ = describe_function([row for row in ROWS if row.op == name])
    return functions


FUNCTIONS = _make_functions()
_NOT_EXPORTED = {"rdiv"}
globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS.keys() - _NOT_EXPORTED)  # pyright: ignore[reportUnsupportedDunderAll]  from the tables

UPCALLS: dict[str, Callable[..., Any]] = {"add_arrays": jax.jit(lax.add)}
