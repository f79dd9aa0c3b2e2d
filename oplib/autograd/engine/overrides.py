"""The protocol by which a class of a user takes over calls of ``backward`` and ``grad``.

A class with a classmethod ``__oplib_function__(func, types, args, kwargs)`` is tensor-like: if an instance is
among the outputs or inputs, the classmethod receives the whole call. The contract is that of
``__torch_function__``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oplib.errors import GradientTypeError
from oplib.tensor import Tensor


def is_tensor_like(value: object) -> bool:
    """Returns whether a value is a Tensor, or of a class that takes over calls."""
    return isinstance(value, Tensor) or hasattr(type(value), "__oplib_function__")


def find_overrides(values: Iterable[object]) -> list[type[Any]]:
    """Returns the classes of ``values`` that take over calls, each once, a subclass before its base."""
    classes: list[type[Any]] = []
    for value in values:
        cls = type(value)
        if cls is Tensor or cls in classes or not hasattr(cls, "__oplib_function__"):
            continue
        index = next((at for at, other in enumerate(classes) if issubclass(cls, other)), len(classes))
        classes.insert(index, cls)
    return classes


def hand_over(
    func: Callable[..., Any], overrides: list[type[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls each class's ``__oplib_function__`` until one answers, or raises GradientTypeError."""
    for cls in overrides:
        result = cls.__oplib_function__(func, tuple(overrides), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(cls.__name__ for cls in overrides)
    raise GradientTypeError(
        f"{func.__name__}: no implementation for these types. {names}.__oplib_function__ returned "
        "NotImplemented. Handle the function there, or give Tensors."
    )
