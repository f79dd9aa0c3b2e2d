"""Writes one Python function from a specification: one frame between a call and the overload that runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from oplib.builtin.argument_checks.not_tensors import find_untensor
from oplib.builtin.in_place_and_out.out import write_out
from oplib.builtin.rows.parameters import MORE, NAMES, NUMBERS_INSIDE, has_further_names, loosen, sort_numbers
from oplib.builtin.rows.row import Function, name_publicly
from oplib.docstrings import complete_docstring
from oplib.errors import ArgumentError
from oplib.generated_code import render_parameters
from oplib.library.dispatch.inlined_overloads import define_with_overloads

from .examples import add_example
from .specification import FunctionSpec

_OUT = {"out": "a tensor that the result is written into and that is returned, or a tuple; by default None."}
_IN_DTYPE_OF_OUT = frozenset(("sum", "prod", "cumsum", "cumprod"))
"""Functions that compute in the dtype of ``out=`` by default: integers do not wrap before they are floats.

Complex numbers do not, whose imaginary part would be lost."""
_DTYPE_OF_OUT = "dtype=dtype or (None if __is_complex(input) else getattr(out, 'dtype', None))"


def emit_function(
    spec: FunctionSpec,
    filename: str,
    *,
    out: bool = False,
    exact_out: bool = False,
    has_gradient: bool = True,
) -> Function:
    """Writes a function.

    Args:
        spec: of the function.
        filename: the file name of its text, such as ``<oplib.sum>``.
        out: whether it takes ``out=``.
        exact_out: whether ``out=`` must have the dtype of the result.
        has_gradient: whether the op has a gradient, which ``out=`` would lose: it is refused where an
            argument requires grad.
    """
    parameters = list(spec.parameters)
    namespace = dict(spec.namespace)
    lines: list[str] = []
    rest: list[Parameter] = []
    if may_sort := spec.name.rstrip("_") in NUMBERS_INSIDE:
        parameters = sorted([*parameters, MORE], key=lambda parameter: parameter.kind)
    if has_further_names(parameters):
        parameters, line, used = loosen(parameters, spec.name, more=", out=out" if out else "")
        rest.append(NAMES)
        lines.append(line)
        namespace |= used
    if out:
        line = _render_out(parameters, exact=exact_out, has_gradient=has_gradient)
        lines.append(line.replace("dtype=dtype", _DTYPE_OF_OUT) if spec.name in _IN_DTYPE_OF_OUT else line)
        namespace |= {"__write_out": write_out, "__name": spec.name, "__is_complex": np.iscomplexobj}
        rest.insert(0, Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    if may_sort:
        lines.append(_render_sorting(spec))
        namespace["__sort_numbers"] = sort_numbers
    lines += _render_body(spec, namespace)
    function = define_with_overloads(
        spec.name,
        [*parameters, *rest],
        spec.branches,
        lines=lines,
        namespace=namespace,
        filename=filename,
        writes=spec.writes,
    )
    doc = complete_docstring(spec.doc, _OUT) if out and spec.doc else spec.doc
    function.__doc__ = add_example(spec.name, doc)
    function.__globals__["__again"] = function
    if may_sort:  # the deprecated overloads stay out of documents and stubs
        shown: Any = function
        shown.__signature__ = Signature([own for own in [*parameters, *rest] if own is not MORE])
    if not (rest or spec.branches):
        function.__annotations__ = dict(spec.annotations)
    return function


def _render_sorting(spec: FunctionSpec) -> str:
    named = ", ".join(f"{own.name!r}: {own.name}" for own in spec.parameters if own.kind is own.KEYWORD_ONLY)
    positional = ", ".join(own.name for own in spec.parameters if own.kind is not own.KEYWORD_ONLY)
    sort = f"__sort_numbers({spec.name!r}, ({positional}, *more), {{{named}}})"
    return f"    if more: __given, __numbers = {sort}; return __again(*__given, **__numbers)"


def _render_out(parameters: Sequence[Parameter], *, exact: bool, has_gradient: bool) -> str:
    call = f"__again({render_parameters(parameters).passed})"
    values = "".join(f"{'*' * (own is MORE)}{own.name}, " for own in parameters) if has_gradient else ""
    return f"    if out is not None: return __write_out(__name, lambda: {call}, out, ({values}), {exact})"


def _render_body(spec: FunctionSpec, namespace: dict[str, Any]) -> list[str]:
    """The lines of the body, with the explanation of its errors around them."""
    if not spec.explains_untensors:
        return list(spec.lines)
    defaults = {parameter.name: parameter.default for parameter in spec.parameters}
    namespace["__Refusal"] = ArgumentError
    namespace["__find_untensor"] = partial(find_untensor, name_publicly(spec.name), defaults)
    values = ", ".join(f"{parameter.name!r}: {parameter.name}" for parameter in spec.parameters)
    return [
        "    try:",
        *[f"    {line}" for line in spec.lines],
        "    except (AttributeError, TypeError, __Refusal) as __error:",
        f"        __better = __find_untensor(__error, {{{values}}})",
        "        if __better is None: raise",
        "        raise __better from None",
    ]


# Names: pickle finds functions by them, and readers of tracebacks -------------------------------------------

_SUBMODULES = ("linalg", "fft", "special")


def name_function(function: Function, name: str, submodule: str = "") -> Function:
    """Gives a made function the name under which it is public.

    Args:
        function: the function.
        name: of its op; or, with a submodule, of the function there.
        submodule: where it is public, if neither at the root nor where the prefix of its op says.
    """
    submodule = submodule or next(
        (candidate for candidate in _SUBMODULES if name.startswith(f"{candidate}_")), ""
    )
    function.__name__ = name
    # pickle finds it there: a configuration that holds an activation may be sent to another process.
    function.__qualname__ = name.removeprefix(f"{submodule}_") if submodule else name
    function.__module__ = f"oplib.{submodule}" if submodule else "oplib"
    return function


def name_method(function: Function, name: str, method: str = "") -> Function:
    """Gives a function that is public only as a method of Tensor the name under which it is found there."""
    function.__name__ = name
    function.__qualname__ = f"Tensor.{method or name}"
    function.__module__ = "oplib"
    return function
