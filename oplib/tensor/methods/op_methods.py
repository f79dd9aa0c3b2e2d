"""Methods of Tensor that are ops as they stand: ``x.exp()`` is the very function ``oplib.exp``.

The ops stand floors above, in tables. The package's root enters their names here, and a function is made when
it is first asked for. Methods whose arguments differ from the function's are written out in :mod:`.forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any


class OpMethods:
    """Mixin that the methods are entered into; their types are in the stub beside this file."""


class OpMethod:
    """Stands for a method until it is first asked for, and then gives way to the function.

    Args:
        functions: where the function is found.
        name: of the function, and of the method.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]], name: str) -> None:
        self._functions = functions
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        function = self._functions[self._name]
        if OpMethods.__dict__.get(self._name) is self:
            setattr(OpMethods, self._name, function)
        return function if instance is None else MethodType(function, instance)


def add_op_methods(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Makes functions methods of Tensor, under their names."""
    for name in functions:
        setattr(OpMethods, name, OpMethod(functions, name))
