"""Writes one Python function from a specification: one frame between a call and the overload that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import Parameter
from typing import Any

from oplib.autograd.recording.in_place import check_may_write, write_in_place
from oplib.builtin.checks.not_tensors import find_untensor
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.rows.docstring import add_to_arguments
from oplib.builtin.rows.parameters import NAMES, has_further_names, loosen
from oplib.builtin.writing.out import write_out
from oplib.library.calls.fusion import Text, define_text
from oplib.library.calls.spelling import spell_parameters
from oplib.tensor import Storage
from oplib.tensor.shapes.keywords import take_named

from .specification import FunctionSpec, specify_composed

Function = Callable[..., Any]
_INPLACE = "inplace: a bool, by default False; whether the result is written into `input`, a Tensor."
_OUT = "out: a tensor that the result is written into and that is returned, or a tuple; by default None."


def emit_function(
    spec: FunctionSpec, place: str, *, out: bool = False, has_gradient: bool = True
) -> Function:
    """Writes a function.

    Args:
        spec: of the function.
        place: the file name of its text, such as ``<oplib.sum>``.
        out: whether it takes ``out=``.
        has_gradient: whether the op has a gradient, which ``out=`` would lose: it is refused where an
            argument requires grad.
    """
    parameters = list(spec.parameters)
    namespace = dict(spec.namespace)
    lines: list[str] = []
    rest: list[Parameter] = []
    if spec.further_names and has_further_names(parameters):
        parameters, line, used = loosen(parameters, spec.name, more=", out=out" if out else "")
        rest.append(NAMES)
        lines.append(line)
        namespace |= used
    if out:
        lines.append(_spell_out(parameters, has_gradient=has_gradient))
        namespace |= {"__write_out": write_out, "__name": spec.name}
        rest.insert(0, Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    lines += _spell_body(spec, namespace)
    doc = add_to_arguments(spec.doc, _OUT) if out else spec.doc
    text = Text(spec.name, [*parameters, *rest], lines, namespace, place, doc)
    function = define_text(text, spec.branches)
    function.__globals__["__again"] = function
    if not (rest or spec.branches):
        function.__annotations__ = dict(spec.annotations)
    return function


def _spell_out(parameters: Sequence[Parameter], *, has_gradient: bool) -> str:
    call = f"__again({', '.join(spell_parameters(parameters).given)})"
    values = "".join(f"{one.name}, " for one in parameters) if has_gradient else ""
    return f"    if out is not None: return __write_out(__name, lambda: {call}, out, ({values}))"


def _spell_body(spec: FunctionSpec, namespace: dict[str, Any]) -> list[str]:
    """The lines of the body, with the check before it and the explanation of its errors around both."""
    lines = list(spec.lines)
    if spec.check is not None:
        namespace["__check"] = spec.check
        lines.insert(0, f"    __check({', '.join(spell_parameters(spec.parameters).given)})")
    if not spec.explains_untensors:
        return lines
    defaults = {one.name: one.default for one in spec.parameters}
    namespace["__find_untensor"] = partial(find_untensor, spec.name, defaults)
    values = ", ".join(f"{one.name!r}: {one.name}" for one in spec.parameters)
    return [
        "    try:",
        *[f"    {line}" for line in lines],
        "    except (AttributeError, TypeError) as __error:",
        f"        __better = __find_untensor(__error, {{{values}}})",
        "        if __better is None: raise",
        "        raise __better from None",
    ]


def emit_in_place_form(function: Function, name: str) -> Function:
    """Writes ``exp_`` from ``exp``: it returns its first argument, which holds the result.

    Args:
        function: the op out of place.
        name: of the in-place form.
    """
    spec = specify_composed(name, function)
    first, *others = spec.parameters
    operands = "".join(
        f"*{one.name}.values(), " if one.kind is Parameter.VAR_KEYWORD else f"{one.name}, " for one in others
    )
    (line,) = spec.lines
    lines = (
        f"    __require_tensor({first.name}, {name!r})",
        f"    __check_may_write({first.name}, {name!r}, ({operands}))",
        "    while True:",  # as update_in_place does
        f"        __storage = {first.name}._storage",
        "        __seen = __storage.array if __storage.__class__ is __Storage else __storage.owner.array",
        f"        __written = __write({first.name}, {line.removeprefix('    return ')}, {name!r}, __seen)",
        "        if __written is not None: return __written",
    )
    used = {
        "__require_tensor": require_tensor_to_write,
        "__check_may_write": check_may_write,
        "__Storage": Storage,
        "__write": write_in_place,
    }
    doc = (
        f"As ``{name[:-1]}``, in place: the result becomes the value of ``input``, which is returned.\n\n"
        f"Gradient:\n    That of ``{name[:-1]}``.\n\nSource:\n    torch.Tensor.{name}\n"
    )
    spec = replace(
        spec,
        lines=lines,
        namespace={**spec.namespace, **used},
        explains_untensors=False,
        further_names=False,
        doc=doc,
    )
    return emit_function(spec, f"<oplib.Tensor.{name}>")


def emit_variadic_method(function: Function, name: str, parameter: str) -> Function:
    """Writes a method that takes its numbers one by one, in one sequence, or by the keyword of its op.

    Args:
        function: the function of the op, whose second parameter is a sequence.
        name: of the op.
        parameter: the name of that parameter.
    """
    lines = (
        f"    if {parameter} is not None:",
        f"        return __function(input, __take_named({name!r}, {parameter!r}, {parameter}, numbers))",
        "    is_sequence = len(numbers) == 1 and not isinstance(numbers[0], int)",
        "    return __function(input, numbers[0] if is_sequence else numbers)",
    )
    parameters = (
        Parameter("input", Parameter.POSITIONAL_OR_KEYWORD),
        Parameter("numbers", Parameter.VAR_POSITIONAL),
        Parameter(parameter, Parameter.KEYWORD_ONLY, default=None),
    )
    namespace = {"__function": function, "__take_named": take_named}
    spec = FunctionSpec(name, parameters, lines, namespace, further_names=False, doc=function.__doc__)
    return emit_function(spec, f"<oplib.Tensor.{name} of several>")


def emit_flagged_function(spec: FunctionSpec, at: int, in_place: Function, place: str) -> Function:
    """Writes an activation with ``inplace``: the function of the op, which may write its argument instead.

    Args:
        spec: of the function without ``inplace``.
        at: the position of ``inplace``; parameters from there on keep their defaults.
        in_place: the in-place form.
        place: the file name of its text.
    """
    parameters, others = spec.parameters[:at], spec.parameters[at:]
    given = ", ".join(spell_parameters(parameters).given)
    flag = Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False)
    spec = replace(
        spec,
        parameters=(*parameters, flag),
        lines=(
            f"    if inplace: return __in_place({given})",
            *(f"    {one.name} = __kept[{one.name!r}]" for one in others),
            *spec.lines,
        ),
        namespace={
            **spec.namespace,
            "__in_place": in_place,
            "__kept": {one.name: one.default for one in others},
        },
        doc=add_to_arguments(spec.doc, _INPLACE),
    )
    return emit_function(spec, place)
