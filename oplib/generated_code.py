"""Functions made from text at run time. Tracebacks and debuggers show their lines.

:func:`fill_template` puts values into templates that read like code. :func:`refer` names the objects that
code refers to. The functions of :func:`write_function` are entry points (:mod:`.tracebacks`): their body runs
in a ``try`` that hides the frames of oplib from an error. The interpreter does nothing for a ``try`` until
something is raised, so that it costs a call nothing.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import Parameter, Signature
from types import CodeType
from typing import Any, NamedTuple
from weakref import finalize

from .tracebacks import refine_error

# CPython 3.11 counts the depth of a tree per interpreter. Two threads that convert trees at once get a
# SystemError, so all of oplib converts them here (CPython issue 106905).
_converting = threading.RLock()


def fill_template(template: str, **values: str) -> str:
    r"""Returns a template of code with values in the place of ``{name}``.

    A value of several lines stands alone on a line of the template, and gets its indentation. Empty lines go,
    and so does an empty value that stands alone.

    Example:
        >>> print(fill_template("if {test}:\n    {body}\n    {end}", test="x", body="y = 1\nz = 2", end=""))
        if x:
            y = 1
            z = 2
    """
    lines: list[str] = []
    for line in template.splitlines():
        space = line[: len(line) - len(line.lstrip())]
        filled = line.format(**values).splitlines()
        lines += [space * (number > 0) + part for number, part in enumerate(filled)]
    return "\n".join(line for line in lines if line.strip())


def refer(objects: dict[str, Any], value: Any, hint: str) -> str:
    """Returns an expression for an object: the literal, or a global name made from the hint.

    Args:
        objects: the globals of the code by name, to which the object is added.
        value: the object.
        hint: what the name contains.
    """
    if value is None or value.__class__ in (bool, int, str):
        return repr(value)
    names = itertools.chain([f"__{hint}"], (f"__{hint}_{number}" for number in itertools.count(2)))
    return next(name for name in names if objects.setdefault(name, value) is value)


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
