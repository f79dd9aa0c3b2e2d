"""Every built-in op as a function: what ``oplib.add`` is, and what Tensor methods call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from . import _compare, _creation, _indexing, _linalg, _movement, _pointwise, _reduce
from ._choosers import CHOOSERS
from ._in_place import make_in_place
from ._placement import to_device
from ._registrar import describe_function, make_function, register_all
from ._subscripts import Getter, make_setitem

Function = Callable[..., Any]

FAMILIES = (_pointwise, _compare, _reduce, _movement, _indexing, _linalg, _creation)
ROWS = tuple(row for family in FAMILIES for row in family.ROWS)
OVERLOADS = register_all(ROWS)

# Called by Tensor methods and by floors below, and no public function under this name.
_INTERNAL = frozenset(
    {
        "_to_copy",
        "alias",
        "copy",
        "expand",
        "index",
        "rdiv",
        "select",
        "setitem",
        "slice",
        "sum_to_size",
        "view",
        "zero",
    }
    | {"zeros_like", "ones_like"}  # those of the tensor floor, which also take a device
)


def _make_functions() -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for name in dict.fromkeys(row.op for row in ROWS):
        rows = [row for row in ROWS if row.op == name]
        chooser = CHOOSERS.get(name)
        function = make_function(rows[0], OVERLOADS[rows[0].name]) if chooser is None else chooser(OVERLOADS)
        function.__doc__ = describe_function(rows)
        functions[name] = name_function(function, name)
    return functions


def name_function(function: Function, name: str) -> Function:
    """Gives a made function the name under which it is public."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = "oplib.ops"
    return function


def _make_in_place_forms() -> dict[str, Function]:
    names = dict.fromkeys(row.op for row in ROWS if row.in_place)
    forms = {f"{name}_": make_in_place(_functions[name], f"{name}_") for name in names}
    return {name: name_function(form, name) for name, form in forms.items()}


def _rpow(input: Any, other: Any) -> Any:  # noqa: A002  torch's name
    return _functions["pow"](other, input)


_functions = _make_functions()
IN_PLACE = _make_in_place_forms()
FUNCTIONS: dict[str, Function] = {name: one for name, one in _functions.items() if name not in _INTERNAL}
UPCALLS: dict[str, Function] = {
    **_functions,
    **IN_PLACE,
    "add_arrays": jax.jit(lax.add),
    "getitem": Getter(OVERLOADS).getitem,
    "rpow": _rpow,
    "setitem_": name_function(make_setitem(OVERLOADS, _functions), "setitem_"),
    "to_device": to_device,
    "to_dtype": _functions["_to_copy"],
}

globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
