"""Functions made from text at run time. Tracebacks and debuggers show their lines."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any


def define_function(source: str, name: str, place: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    r"""Compiles a source text and returns a function that it defines.

    Args:
        source: the text of a module.
        name: of the function in the text.
        place: the file name of the code in tracebacks, such as ``<oplib.sum>``. Two texts must not share a
            place, or tracebacks show the lines of the later one.
        namespace: the global names of the function. The text adds its own to them.

    Example:
        >>> double = define_function("def double(x):\n    return 2 * x", "double", "<doc.double>", {})
        >>> double(4)
        8
        >>> import inspect
        >>> print(inspect.getsource(double))
        def double(x):
            return 2 * x
    """
    exec(compile(source, place, "exec"), namespace)
    register_source(source, place)
    return namespace[name]


def compile_function(source: str, place: str) -> CodeType:
    """Compiles a source text and returns the code of the first function in it, to replace a ``__code__``."""
    module = compile(source, place, "exec")
    register_source(source, place)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def register_source(source: str, place: str) -> None:
    """Shows a source text to ``linecache``, from which tracebacks, ``inspect`` and debuggers read lines."""
    # An entry without a modification time is never dropped by ``linecache.checkcache``.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
