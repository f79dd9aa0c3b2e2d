"""Functions made from text at run time. Tracebacks and debuggers show their lines.

Each is an entry point (:mod:`.tracebacks`): its body runs in a ``try`` that hides the frames of oplib from an
error. The interpreter does nothing for a ``try`` until something is raised, so that it costs a call nothing.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from .tracebacks import hide_frames

_GUARD = "try: pass\nexcept Exception as __error: __hide_frames(__error); raise"


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
    namespace["__hide_frames"] = hide_frames
    exec(_compile(source, place), namespace)
    register_source(source, place)
    return namespace[name]


def compile_function(source: str, place: str) -> CodeType:
    """Compiles a source text and returns the code of the first function in it, to replace a ``__code__``."""
    module = _compile(source, place)
    register_source(source, place)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def _compile(source: str, place: str) -> CodeType:
    """Compiles a source text whose functions hide the frames of oplib; line numbers are those of the text."""
    module = ast.parse(source, place)
    for function in module.body:
        if isinstance(function, ast.FunctionDef):
            start = 0 if ast.get_docstring(function) is None else 1
            body = function.body[start:]
            guard = ast.Try(body=body, handlers=_HANDLERS, orelse=[], finalbody=[])
            function.body[start:] = [ast.copy_location(guard, body[0])]
    return compile(module, place, "exec")


def _make_handlers() -> list[ast.ExceptHandler]:
    """The ``except`` of every function, parsed once; its lines are said to be the first of the text."""
    guard = ast.parse(_GUARD).body[0]
    assert isinstance(guard, ast.Try)
    for node in ast.walk(guard):
        if isinstance(node, ast.stmt | ast.expr | ast.excepthandler):
            node.lineno = node.end_lineno = 1
    return guard.handlers


_HANDLERS = _make_handlers()


def register_source(source: str, place: str) -> None:
    """Shows a source text to ``linecache``, from which tracebacks, ``inspect`` and debuggers read lines."""
    # An entry without a modification time is never dropped by ``linecache.checkcache``.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
