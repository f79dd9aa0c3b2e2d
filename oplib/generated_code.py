"""Functions made from text at run time. Tracebacks and debuggers show their lines.

Those of :func:`write_function` are entry points (:mod:`.tracebacks`): their body runs in a ``try`` that hides
the frames of oplib from an error. The interpreter does nothing for a ``try`` until something is raised, so
that it costs a call nothing.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, TypeVar
from weakref import finalize

from .tracebacks import refine_error

F = TypeVar("F", bound=Callable[..., Any])
INLINED: set[Callable[..., Any]] = set()
"""The functions marked by :func:`inlined`."""
# CPython 3.11 counts the depth of a tree per interpreter. Two threads that convert trees at once get a
# SystemError, so all of oplib converts them here (CPython issue 106905).
converting = threading.Lock()


def inlined(function: F) -> F:
    """Marks a function whose statements generated code repeats, where other code calls it.

    ``library/calls/unrolling.py`` reads its source and says which statements it may contain.
    """
    INLINED.add(function)
    return function


def define_function(source: str, name: str, place: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    r"""Compiles a source text and returns a function that it defines.

    Args:
        source: the text of a module.
        name: of the function in the text.
        place: the file name of the code in tracebacks, such as ``<oplib.sum>``. It gets a number if other
            code has this name already.
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
    namespace["__refine_error"] = refine_error
    place = _reserve_place(place)
    exec(compile(source, place, "exec"), namespace)
    register_source(source, place)
    function = namespace[name]
    finalize(function, linecache.cache.pop, place, None)
    return function


def _reserve_place(place: str) -> str:
    """Returns a place that no other code has."""
    entry = (0, None, [], place)
    others = (f"{place.removesuffix('>')} {number}>" for number in itertools.count(2))
    return next(
        one for one in itertools.chain([place], others) if linecache.cache.setdefault(one, entry) is entry
    )


def compile_function(source: str, place: str) -> CodeType:
    """Compiles a source text and returns the code of the first function in it, to replace a ``__code__``."""
    module = compile(source, place, "exec")
    register_source(source, place)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def parse(source: str) -> ast.Module:
    """Returns the tree of a source text."""
    with converting:
        return ast.parse(source)


def parse_literal(source: str) -> Any:
    """Returns the value of a literal."""
    with converting:
        return ast.literal_eval(source)


def indent(lines: Iterable[str]) -> Iterator[str]:
    """Returns lines of text one step further to the right."""
    return (f"    {line}" for line in lines)


_REFINING = (
    "except Exception as __error:",
    "    if (__better := __refine_error(__error)): raise __better from __error",
    "    raise",
)


def write_function(head: str, lines: Iterable[str]) -> str:
    """Returns the text of a function that hides the frames of oplib from an error.

    Args:
        head: its name and parameters.
        lines: its statements.
    """
    return "\n".join([f"def {head}:", *indent(["try:", *indent(lines), *_REFINING])])


def register_source(source: str, place: str) -> None:
    """Shows a source text to ``linecache``, from which tracebacks, ``inspect`` and debuggers read lines."""
    # An entry without a modification time is never dropped by ``linecache.checkcache``.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
