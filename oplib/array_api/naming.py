"""Functions that have names of the standard, some of which are Python's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oplib.tracebacks import entry_point

Function = TypeVar("Function", bound=Callable[..., Any])


def collect(functions: dict[str, Any], package: str = "oplib.array_api") -> Callable[[Function], Function]:
    """Returns a decorator that enters ``_max`` into a table as ``max``."""

    def enter(function: Function) -> Function:
        name = function.__name__.removeprefix("_")
        function.__name__ = function.__qualname__ = name
        function.__module__ = package
        functions[name] = entry_point(function)
        return function

    return enter
