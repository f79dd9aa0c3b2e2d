"""The call forms of a function, as lines of a stub file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oplib.builtin.public_functions.registry import REGISTRY, FunctionRegistry
from oplib.builtin.rows.parameters import ABSENT, FURTHER_NAMES, takes_further_names
from tools.stub_results import (
    TENSOR,
    UNKNOWN,
    find_composed,
    find_result,
    has_mixed_results,
    name_class,
    takes_one_tensor,
)

Parameters = list[inspect.Parameter]
_KINDS = inspect.Parameter
_EMPTY = _KINDS.empty
_EITHER = "_TensorOrArray"
_FURTHER = {own: further for further, own in FURTHER_NAMES.items()}


def list_parameters(function: Callable[..., Any]) -> Parameters:
    """Returns the parameters of a function, further names among those that are only given by name."""
    parameters = list(inspect.signature(function).parameters.values())
    if not any(map(takes_further_names, parameters)):
        return parameters
    own = {parameter.name for parameter in parameters}
    further = [name for name, meant in FURTHER_NAMES.items() if meant in own]
    named = [inspect.Parameter(name, _KINDS.KEYWORD_ONLY, default=ABSENT) for name in further]
    return [*parameters[:-1], *named]


def declare(
    name: str,
    op: str,
    parameters: Parameters,
    *,
    is_method: bool = False,
    registry: FunctionRegistry = REGISTRY,
) -> list[str]:
    """Returns the lines that declare a function: one, or one overload per form.

    The declaration has the result type for Tensors. It also accepts arrays and numbers; for these it has a
    result type only if the op takes a single array.

    Args:
        name: the name of the function.
        op: the op that gives the types of the results.
        parameters: the parameters of the function, including further names.
        is_method: whether the first parameter is ``self``, a Tensor.
        registry: the registry of the op.
    """
    plain = [_loosen(one) for one in parameters]
    if is_method:
        plain[0] = plain[0].replace(name="self", annotation=_EMPTY)
    forms: list[tuple[Parameters, str]] = []
    for form in _list_forms(plain):
        forms += _type_form(form, op, registry, is_method=is_method)
    lines = [f"def {name}{_render(form)} -> {result}: ..." for form, result in forms]
    return lines if len(lines) == 1 else [line for one in lines for line in ("@overload", one)]


def _type_form(
    form: Parameters, op: str, registry: FunctionRegistry, *, is_method: bool
) -> Iterator[tuple[Parameters, str]]:
    """Yields the form for Tensors and, for a function, the form for other values."""
    first = form if is_method else _take_tensor(form, op)
    result = find_result(op.removesuffix("_") if is_method else op, registry)
    composed = find_composed(op, registry)
    is_in_place = op.endswith("_")
    if is_in_place:
        yield form, TENSOR
        return
    if has_mixed_results(op, registry):
        yield from _list_mixed(first)
    elif op == "where":
        yield _require(first, "input", "other"), TENSOR
    elif composed and composed.deciding:
        yield _drop(first, composed.deciding), result
    elif (composed and composed.makes) or result in ("bool", "int") or is_method:
        yield form, result
        return
    elif result != UNKNOWN:
        if result == TENSOR and takes_one_tensor(op, registry):
            yield _annotate_either(first), _EITHER
        else:
            yield first, result
    yield form, UNKNOWN


def _list_mixed(form: Parameters) -> Iterator[tuple[Parameters, str]]:
    """Yields the forms of ``max`` and similar ops: of all items, along a dimension, of two tensors."""
    of_dim = name_class(("values", "indices"))
    out = [one for one in form if one.name == "out"]
    yield [form[0], *out], TENSOR
    dim, keepdim = (next(one for one in form if one.name == name) for name in ("dim", "keepdim"))
    keepdims = keepdim.replace(name="keepdims", kind=_KINDS.KEYWORD_ONLY)
    required = dim.replace(annotation="int", default=_EMPTY)
    yield [form[0], required, keepdim, *out, keepdims], of_dim
    by_name = [keepdim.replace(kind=_KINDS.KEYWORD_ONLY), *out, keepdims]
    axis = required.replace(name="axis", kind=_KINDS.KEYWORD_ONLY)
    yield [form[0], axis, *by_name], of_dim
    if any(one.name == "other" for one in form):
        other = dim.replace(name="other", annotation="Tensor", default=_EMPTY)
        yield [form[0], other, *out], TENSOR


def _list_forms(form: Parameters) -> Iterator[Parameters]:
    """Yields the form with the names of the required arguments, and that with the dim's further name."""
    names = [one.name for one in form]
    absent = [one.name for one in form if one.default is ABSENT and one.name not in FURTHER_NAMES]
    dims = [name for name in absent if _FURTHER.get(name) in names]
    if not dims:
        yield [_default(one) for one in form]
        return
    (dim,) = dims
    further, at = _FURTHER[dim], names.index(dim)
    yield [_default(one, required=absent) for one in form if one.name != further]
    after = [_default(one, required=(*absent, further)) for one in form[at + 1 :]]
    after.sort(key=lambda one: one.name != further)
    yield [*map(_default, form[:at]), *(one.replace(kind=_KINDS.KEYWORD_ONLY) for one in after)]


def _default(one: inspect.Parameter, *, required: Sequence[str] = ()) -> inspect.Parameter:
    """Replaces a default by ``...``; an argument that is required under this name gets none."""
    is_required = one.default is _EMPTY or one.name in required
    return one.replace(default=_EMPTY if is_required else ...)


def _loosen(one: inspect.Parameter) -> inspect.Parameter:
    return one.replace(annotation="Any")


def _take_tensor(form: Parameters, op: str) -> Parameters:
    """Annotates the arguments that decide the result as Tensor, or as several Tensors."""
    at = 1 if op in ("einsum", "polygamma", "special_polygamma") else 0
    one = form[at]
    is_listed = one.name in ("tensors", "matrices") and one.kind is not _KINDS.VAR_POSITIONAL
    return [
        *form[:at],
        one.replace(annotation="Sequence[Tensor]" if is_listed else "Tensor"),
        *form[at + 1 :],
    ]


def _annotate_either(form: Parameters) -> Parameters:
    """Annotates the form for arrays: an array gives an array, and ``out`` has the same type."""
    return [one.replace(annotation=_EITHER) if one.annotation == "Tensor" else one for one in form]


def _require(form: Parameters, *names: str) -> Parameters:
    return [one.replace(default=_EMPTY) if one.name in names else one for one in form]


def _drop(form: Parameters, names: tuple[str, ...]) -> Parameters:
    """Removes some parameters; positional parameters after them become keyword-only."""
    at = min(at for at, one in enumerate(form) if one.name in names)
    after = [one.replace(kind=_KINDS.KEYWORD_ONLY) for one in form[at:] if one.name not in names]
    return [*form[:at], *after]


def _render(form: Parameters) -> str:
    """Returns the text of the parameters; the annotations are texts."""
    words: list[str] = []
    is_named = False
    for one in form:
        if one.kind is _KINDS.KEYWORD_ONLY and not is_named:
            words.append("*")
        is_named |= one.kind in (_KINDS.KEYWORD_ONLY, _KINDS.VAR_POSITIONAL)
        stars = {_KINDS.VAR_POSITIONAL: "*", _KINDS.VAR_KEYWORD: "**"}.get(one.kind, "")
        annotation = "" if one.annotation is _EMPTY else f": {one.annotation}"
        words.append(f"{stars}{one.name}{annotation}{'' if one.default is _EMPTY else ' = ...'}")
    return f"({', '.join(words)})"
