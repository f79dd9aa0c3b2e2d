"""The specification of a public function: its parameters, the text of its body, and what stands around it."""

from __future__ import annotations

import ast
import inspect
import keyword
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import field
from inspect import Parameter
from typing import Any

from oplib.builtin.overload_resolution.operands import NUMBERS, take_operand
from oplib.builtin.registration import make_results
from oplib.builtin.rows.choice import Check, OverloadChoice
from oplib.builtin.rows.row import Function, Row
from oplib.builtin.viewing import make_viewer
from oplib.frozen import frozen
from oplib.generated_code import parse, render_parameters
from oplib.library import OpOverload
from oplib.library.dispatch.inlined_overloads import Branch, when_number, when_tensor
from oplib.library.schema import Argument
from oplib.tensor import Tensor


@frozen
class FunctionSpec:
    """Everything from which one Python function is written, see :mod:`.writer`.

    Attributes:
        name: of the op; the function has it in its text and in errors.
        parameters: with their own names; ``axis`` and ``out`` are added.
        lines: the body, indented by one step. It refers to the parameters and to the namespace.
        namespace: what the lines refer to besides. Names of the writer begin with two underscores.
        branches: overloads whose fast paths are written before the body.
        writes: the function writes the result of its op into its first argument.
        explains_untensors: an error says which argument is no tensor, if the body fails because of it.
        doc: its docstring, without ``out``.
        annotations: of its parameters and result, where these are all that it takes.
    """

    name: str
    parameters: tuple[Parameter, ...]
    lines: tuple[str, ...]
    namespace: Mapping[str, Any]
    branches: tuple[Branch, ...] = ()
    writes: bool = False
    explains_untensors: bool = False
    doc: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)


def specify_op(overloads: Sequence[OpOverload], row: Row, check: Check | None) -> FunctionSpec:
    """Describes the function of an op, ``oplib.exp(input)``, by its schemas.

    Overloads of the same parameters are told by where they take a number instead of a tensor. The ``call`` of
    an overload is looked up each time: rules replace it.
    """
    *tested, (_, rest) = _list_tests(overloads)
    schema = rest._schema
    parameters = tuple(map(_make_parameter, schema.arguments))
    names = [parameter.name for parameter in parameters]
    pairs = zip(parameters, schema.arguments, strict=True)
    passed = ", ".join(
        f"{it.name}={parameter.name}" if it.kwarg_only else parameter.name for parameter, it in pairs
    )
    namespace: dict[str, Any] = {"__op": rest, "__take": take_operand, "__numbers": NUMBERS}
    lines = _render_check(check if row.view is None else None, parameters, namespace)
    taken = sorted({index for indices, _ in tested for index in indices})
    lines += [f"    {names[index]} = __take({names[index]})" for index in taken]
    chosen = "__op"
    for number, (indices, overload) in reversed(list(enumerate(tested))):
        namespace[f"__op{number}"] = overload
        are = " and ".join(f"isinstance({names[index]}, __numbers)" for index in indices)
        chosen = f"(__op{number} if {are} else {chosen})"
    call = f"{chosen}.call({passed})"
    if results := make_results(schema):
        call, namespace["__results"] = f"__results(*{call})", results
    if check and check.result:
        call, namespace["__check_result"] = f"__check_result({call}, {passed})", check.result
    if row.view is not None:
        lines.append(f"    if isinstance(input, __Tensor): return __look({', '.join(names)})")
        looks = make_viewer(row.view, row.node_name, rest, check and check.arguments)
        namespace |= {"__Tensor": Tensor, "__look": looks}
    lines.append(f"    return {call}")
    branches = [Branch(_render_test(indices, taken), overload) for indices, overload in tested]
    is_plain = not results and row.view is None and check is None
    return FunctionSpec(
        row.op,
        parameters,
        tuple(lines),
        namespace,
        (*branches, Branch("", rest)) if is_plain else (),
        explains_untensors=check is not None,
    )


def _list_tests(overloads: Sequence[OpOverload]) -> list[tuple[tuple[int, ...], OpOverload]]:
    """Returns overloads of the same parameters, each with the indices at which only some take a number.

    The last one takes none there.
    """
    schemas = [overload._schema.arguments for overload in overloads]
    names = [[argument.name for argument in arguments] for arguments in schemas]
    alike = [index for index, own in enumerate(names) if own == names[0]]
    numbers = {index: [str(argument.type) == "Scalar" for argument in schemas[index]] for index in alike}
    overload_by_numbers: dict[tuple[int, ...], OpOverload] = {}
    for index, own in numbers.items():
        told = [
            at for at, is_number in enumerate(own) if is_number and not all(it[at] for it in numbers.values())
        ]
        overload_by_numbers.setdefault(tuple(told), overloads[index])
    return sorted(overload_by_numbers.items(), key=lambda it: (not it[0], it[0][:1], -len(it[0])))


def _render_test(indices: Sequence[int], taken: Sequence[int]) -> str:
    """Returns the test of whether the fast path of an overload serves a call."""
    tensors = [at for at in taken if at > indices[0] and at not in indices]
    return " and ".join([*map(when_number, indices), *map(when_tensor, tensors)])


def _render_check(
    check: Check | None, parameters: Sequence[Parameter], namespace: dict[str, Any]
) -> list[str]:
    """Returns the line that checks the arguments, if there is such a check."""
    if check is None or check.arguments is None:
        return []
    namespace["__check"] = check.arguments
    return [f"    __check({render_parameters(parameters).passed})"]


def specify_choice(name: str, choice: OverloadChoice, check: Check | None) -> FunctionSpec:
    """Describes the function of an op with several overloads: the body is that of its chooser."""
    lines, namespace = _take_apart(choice.function)
    parameters = tuple(inspect.signature(choice.function).parameters.values())
    return FunctionSpec(
        name,
        parameters,
        (*_render_check(check, parameters, namespace), *lines),
        namespace,
        () if check else choice.branches,
        explains_untensors=bool(check) or not choice.branches,
        annotations=choice.function.__annotations__,
    )


def specify_composed(name: str, function: Function) -> FunctionSpec:
    """Describes a function that is made of several ops, and keeps its own frame."""
    parameters = tuple(inspect.signature(function).parameters.values())
    return FunctionSpec(
        name,
        parameters,
        (f"    return __function({render_parameters(parameters).passed})",),
        {"__function": function},
        explains_untensors=True,
        doc=function.__doc__,
        annotations=function.__annotations__,
    )


def _make_parameter(argument: Argument) -> Parameter:
    """The first argument is called ``self`` in schemas and ``input`` in functions, as in torch."""
    name = "input" if argument.name == "self" else argument.name
    return Parameter(
        f"{name}_" if keyword.iskeyword(name) else name,
        Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD,
        default=argument.default_value if argument.has_default_value() else Parameter.empty,
    )


def _take_apart(function: Function) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the lines of a function's body and what they refer to; without its source a call of it."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError:
        called = specify_composed(function.__name__, function)
        return called.lines, dict(called.namespace)
    (definition,) = parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    first = definition.body[0]
    code, cells = function.__code__, function.__closure__ or ()
    namespace = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    # a chooser has no lambda and no comprehension, whose names would stand in code of their own
    names = {name for name in code.co_names if name in function.__globals__}
    namespace |= {name: function.__globals__[name] for name in names}
    return tuple(source.splitlines()[first.lineno - 1 :]), namespace
