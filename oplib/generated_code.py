"""Functions made from text at run time. Tracebacks and debuggers show their lines.

:class:`CodeWriter` collects the lines of a function and the objects that they refer to. The functions of
:func:`write_function` are entry points (:mod:`.tracebacks`): their body runs in a ``try`` that hides
the frames of oplib from an error. The interpreter does nothing for a ``try`` until something is raised, so
that it costs a call nothing.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter, Signature
from types import CodeType
from typing import Any, NamedTuple, Self
from weakref import finalize

from .tracebacks import refine_error

# CPython 3.11 counts the depth of a tree per interpreter. Two threads that convert trees at once get a
# SystemError, so all of oplib converts them here (CPython issue 106905).
_converting = threading.RLock()


class CodeWriter:
    r"""Lines of Python, and the objects that they refer to.

    Args:
        objects: see the attribute.

    Attributes:
        lines: the lines so far.
        objects: by name what the lines refer to; the ``__globals__`` of the function. The writer adds more.

    Example:
        >>> code = CodeWriter({})
        >>> with code.block("if x is None:"):
        ...     code.write(f"x = {code.refer([], 'default')}")
        >>> print(*code.lines, sep="\n")
        if x is None:
            x = __default
    """

    def __init__(self, objects: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.objects = objects
        self._indent = ""
        self._heads: list[int] = []

    def write(self, *lines: str) -> None:
        """Adds lines to the current block."""
        self.lines += [self._indent + line for line in lines]

    def block(self, head: str) -> Self:
        """Writes a line that ends in a colon; the lines written in a ``with`` of the result are its block."""
        self.write(head)
        self._heads.append(len(self.lines))
        self._indent += "    "
        return self

    def when(self, *tests: str) -> AbstractContextManager[object]:
        """Begins a block of lines that run if all tests hold; without tests they run always."""
        return self.block(f"if {' and '.join(tests)}:") if tests else nullcontext()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._heads.pop() == len(self.lines):
            self.write("pass")
        self._indent = self._indent[4:]

    def refer(self, value: Any, hint: str) -> str:
        """Returns an expression for an object: the literal, or a global name made from the hint."""
        if value is None or value.__class__ in (bool, int, str):
            return repr(value)
        names = itertools.chain([f"__{hint}"], (f"__{hint}_{number}" for number in itertools.count(2)))
        return next(name for name in names if self.objects.setdefault(name, value) is value)


def render_tuple(items: Sequence[str]) -> str:
    """Returns the expression of a tuple of expressions."""
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


class ParameterText(NamedTuple):
    """Parameters as text.

    Attributes:
        declared: the parameters in the head of a function, with parentheses.
        passed: the arguments of a call that passes them on.
        defaults: the defaults that the head refers to, by name.
    """

    declared: str
    passed: str
    defaults: dict[str, Any]


def render_parameters(parameters: Iterable[Parameter]) -> ParameterText:
    """Returns parameters as text, the ``**`` parameter last. The default of ``x`` has the name ``__d_x``.

    Example:
        >>> import inspect
        >>> def f(x, by=2, *, keep=False): ...
        >>> text = render_parameters(inspect.signature(f).parameters.values())
        >>> text.declared, text.passed
        ('(x, by=__d_by, *, keep=__d_keep)', 'x, by, keep=keep')
    """
    ordered = sorted(parameters, key=lambda parameter: parameter.kind is Parameter.VAR_KEYWORD)
    with_defaults = {
        parameter.name: parameter for parameter in ordered if parameter.default is not Parameter.empty
    }
    declared = [
        Parameter(
            parameter.name,
            parameter.kind,
            default=_DefaultName(parameter.name) if parameter.name in with_defaults else parameter.empty,
        )
        for parameter in ordered
    ]
    return ParameterText(
        str(Signature(declared)),
        ", ".join(_PASSED.get(parameter.kind, "{0}").format(parameter.name) for parameter in ordered),
        {f"__d_{name}": parameter.default for name, parameter in with_defaults.items()},
    )


_PASSED = {
    Parameter.VAR_POSITIONAL: "*{0}",
    Parameter.KEYWORD_ONLY: "{0}={0}",
    Parameter.VAR_KEYWORD: "**{0}",
}


class _DefaultName(str):
    """The name of a default, which a signature shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"__d_{self}"


def define_function(source: str, name: str, filename: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    r"""Compiles a source text and returns a function that it defines.

    Args:
        source: the text of a module.
        name: of the function in the text.
        filename: the file name of the code in tracebacks, such as ``<oplib.sum>``. It gets a number if other
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
    filename = _reserve_filename(filename)
    exec(compile(source, filename, "exec"), namespace)
    register_source(source, filename)
    function = namespace[name]
    finalize(function, linecache.cache.pop, filename, None)
    return function


def _reserve_filename(filename: str) -> str:
    """Returns a file name that no other code has."""
    entry = (0, None, [], filename)
    others = (f"{filename.removesuffix('>')} {number}>" for number in itertools.count(2))
    return next(
        candidate
        for candidate in itertools.chain([filename], others)
        if linecache.cache.setdefault(candidate, entry) is entry
    )


def compile_function(source: str, filename: str) -> CodeType:
    """Compiles a source text and returns the code of the first function in it, to replace a ``__code__``."""
    module = compile(source, filename, "exec")
    register_source(source, filename)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def parse(source: str) -> ast.Module:
    """Returns the tree of a source text."""
    with _converting:
        return ast.parse(source)


def parse_literal(source: str) -> Any:
    """Returns the value of a literal."""
    with _converting:
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
    """Returns the text of a function that hides the frames of oplib from an error."""
    return "\n".join([f"def {head}:", *indent(["try:", *indent(lines), *_REFINING])])


def register_source(source: str, filename: str) -> None:
    """Shows a source text to ``linecache``, from which tracebacks, ``inspect`` and debuggers read lines."""
    # An entry without a modification time is never dropped by ``linecache.checkcache``.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
