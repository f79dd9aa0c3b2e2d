"""Further forms of a function, made from its specification: in place, with a flag, of several numbers."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from inspect import Parameter
from typing import Any

from oplib.autograd.recording.in_place import check_may_write, write_in_place
from oplib.autograd.tangents import set_apart
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.in_place_and_out.resizing import write_enlarging
from oplib.builtin.values import is_item
from oplib.docstrings import complete_docstring
from oplib.errors import ArgumentError, describe
from oplib.generated_code import fill_template, parse
from oplib.library.dispatch.own_buffer import choose_call
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.shapes.keywords import take_named
from oplib.tensor.storage.fresh import get_owner_array

from .specification import FunctionSpec

_INPLACE = {"inplace": "a bool, by default False; whether the result is written into `input`, a Tensor."}
# The checks pass whatever the operands are if none of the first tests holds. The loop is that of
# `update_in_place`. A hook for saved tensors may keep the old value, so that is a tensor of its own.
_IN_PLACE = """
    if (
        {first}.__class__ is not __Tensor
        or {first}._root is not None
        or {first}._storage.__class__ is not __Storage
        or {first}._read_only
        or {first}._requires_grad
        or __modes.state.watchers
    ):
        __require_tensor({first}, {name!r})
        __check_may_write({first}, {name!r}, ({operands}){uniform})
    __target = {first}
    while True:
        __storage = __target._storage
        __seen = __storage.array if __storage.__class__ is __Storage else __get_owner_array(__storage)
        if __modes.state.hook_pairs and __modes.state.grad_enabled:
            {first} = __set_apart(__target)
        {body}
"""
_VARIADIC = """
    if {given} is not None:
        __take_named({name!r}, {given!r}, {given}, numbers)
    elif len(numbers) == 1 and not (isinstance(numbers[0], int) or __is_item(numbers[0])):
        {given} = numbers[0]
    else:
        {given} = numbers
"""
_WRITE = (
    "__written = __write(__target, None, {!r}, __seen)\nif __written is not None: return __written\ncontinue"
)


def specify_in_place(
    spec: FunctionSpec,
    name: str,
    *,
    is_uniform: bool = False,
    enlarges: bool = False,
    is_exact: bool = False,
) -> FunctionSpec:
    """Describes ``exp_`` by ``exp``: it returns its first argument, which holds the result.

    Args:
        spec: of the function out of place.
        name: of the in-place form.
        is_uniform: all items of the result are equal.
        enlarges: the first argument takes the shape of the result.
        is_exact: the first argument has the dtype of the result.
    """
    first, *others = [parameter.name for parameter in spec.parameters]
    lines = fill_template(
        _IN_PLACE,
        first=first,
        name=name,
        operands="".join(f"{other}, " for other in others),
        uniform=", is_uniform=True" if is_uniform else "",
        body=_write_results(spec.lines, _WRITE.format(name), first),
    )
    used = {
        "__Tensor": Tensor,
        "__modes": modes,
        "__require_tensor": require_tensor_to_write,
        "__check_may_write": check_may_write,
        "__Storage": Storage,
        "__choose_call": choose_call,
        "__get_owner_array": get_owner_array,
        "__set_apart": set_apart,
        "__write": write_enlarging if enlarges else _write_exact if is_exact else write_in_place,
    }
    doc = (
        f"As ``{name[:-1]}``, in place: the result becomes the value of ``input``, which is returned.\n\n"
        f"Gradient:\n    That of ``{name[:-1]}``.\n\nSource:\n    torch.Tensor.{name}\n"
    )
    return replace(
        spec,
        name=name,
        lines=tuple(lines.splitlines()),
        namespace={**spec.namespace, **used},
        writes=True,
        doc=doc,
        annotations={} if spec.branches else spec.annotations,
    )


def _write_exact(tensor: Tensor, result: Tensor, op: str, seen: Any) -> Tensor | None:
    """As ``write_in_place``, for a tensor that must have the dtype of the result."""
    if tensor.dtype != result.dtype:
        raise ArgumentError(
            f"{op}: the result has another dtype than the tensor, and is not rounded to it. Got "
            f"{describe(result)} for {describe(tensor)}. Convert the tensor first, or use {op[:-1]}."
        )
    return write_in_place(tensor, result, op, seen)


class _ReturnWriter(ast.NodeTransformer):
    """Puts statements in the place of each return; the first one takes the value as its second argument."""

    def __init__(self, text: str, written: str) -> None:
        self._text = text
        self._written = written

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        first, *others = parse(self._text).body
        assert isinstance(first, ast.Assign)
        assert isinstance(first.value, ast.Call)
        assert node.value is not None
        first.value.args[1] = self._choose_calls(node.value)
        return [first, *others]

    def _choose_calls(self, value: ast.expr) -> ast.expr:
        """Lets calls of ops, whose results are the value, use the buffer of the written argument."""
        match value:
            case ast.IfExp(test, body, orelse):
                return ast.IfExp(test, self._choose_calls(body), self._choose_calls(orelse))
            case ast.Call(ast.Attribute(op, "call"), [ast.Name(name), *_]) if name == self._written:
                chosen = ast.Call(ast.Name("__choose_call"), [op, value.args[0]], [])
                return ast.Call(chosen, value.args, value.keywords)
            case _:
                return value


def _write_results(lines: Sequence[str], write: str, written: str) -> str:
    """The lines of a body in a loop, which write what the body returns into the argument ``written``."""
    body = parse(textwrap.dedent("\n".join(["if True:", *lines]))).body[0]
    changed = _ReturnWriter(write, written).visit(body)
    return textwrap.dedent(ast.unparse(changed).partition("\n")[2])


def specify_with_flag(spec: FunctionSpec, at: int, name: str) -> FunctionSpec:
    """Describes an activation with ``inplace``: the function of the op, which may write its argument instead.

    Args:
        spec: of the function without ``inplace``.
        at: the position of ``inplace``; parameters from there on keep their defaults.
        name: of the in-place form.
    """
    kept, in_place = spec.parameters[at:], specify_in_place(spec, name)
    return replace(
        spec,
        parameters=(
            *spec.parameters[:at],
            Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False),
        ),
        lines=(
            *(f"    {parameter.name} = __kept[{parameter.name!r}]" for parameter in kept),
            "    if inplace:",
            *(f"    {line}" for line in in_place.lines),
            *spec.lines,
        ),
        namespace={**in_place.namespace, "__kept": {parameter.name: parameter.default for parameter in kept}},
        doc=complete_docstring(spec.doc or "", _INPLACE),
    )


def specify_variadic(spec: FunctionSpec, parameter: str) -> FunctionSpec:
    """Describes a method that takes its numbers one by one, in one sequence, or by the keyword of its op."""
    return replace(
        spec,
        parameters=(
            spec.parameters[0],
            Parameter("numbers", Parameter.VAR_POSITIONAL),
            Parameter(parameter, Parameter.KEYWORD_ONLY, default=None),
        ),
        lines=(
            *fill_template(_VARIADIC, given=parameter, name=spec.name).splitlines(),
            *spec.lines,
        ),
        namespace={**spec.namespace, "__take_named": take_named, "__is_item": is_item},
        branches=(),
    )
