"""Methods of Tensor that are ops: ``x.exp()`` is the function ``oplib.exp``.

The ops are defined in tables on a higher floor. The package's root enters their names here, and each function
is made when it is first read. Methods whose arguments differ from the function's are in
:mod:`.own_arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType
from typing import Any, Generic

from oplib.protocols import AnyFunction
from oplib.tensor.storage.tensor_slots import TensorT


class OpMethods(Generic[TensorT]):
    """Mixin that receives the methods. Their types are in the stub beside this file."""


class OpMethod:
    """A placeholder for a method. At the first read the function replaces it."""

    def __init__(self, functions: Mapping[str, AnyFunction], name: str) -> None:
        self._functions = functions
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        function = self._functions[self._name]
        if OpMethods.__dict__.get(self._name) is self:
            setattr(OpMethods, self._name, function)
        return function if instance is None else MethodType(function, instance)


def add_op_methods(functions: Mapping[str, AnyFunction]) -> None:
    """Makes functions methods of Tensor, under their names."""
    for name in functions:
        setattr(OpMethods, name, OpMethod(functions, name))
