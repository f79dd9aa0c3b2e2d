"""The meaning of one annotation: a schema type, and for arrays the kind of kernel."""

from __future__ import annotations

import abc
import collections.abc
import enum
import types
import typing
from dataclasses import is_dataclass
from typing import Any, Literal

import jax
import numpy as np

from oplib.autograd.array_functions.masks import pick_given
from oplib.library.schema import (
    ANY,
    TREE,
    BaseType,
    ListType,
    OptionalType,
    SchemaType,
    TupleType,
    has_tensor,
)
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tensor.devices.device import Device
from oplib.tensor.random.generator import Generator

Kind = Literal["array", "host", "tensor"]

SUPPORTED = (
    "Supported are jax.Array, numpy.ndarray and Tensor, int, float, bool, str, Literal[...], Enum classes, "
    "numpy.dtype, oplib.device, oplib.Generator; X | None, list[X], tuple[X, Y]; and, where the kernel works "
    "on arrays, pytrees and hashable objects"
)
SUPPORTED_RETURNS = (
    "Supported are None, jax.Array, numpy.ndarray and Tensor, int, float, bool, list[Tensor], pytrees of "
    "arrays, and tuple[...] of these"
)


def resolve_alias(hint: Any) -> Any:
    """Returns the type behind a name made by ``type X = ...``; numpy's ``NDArray[...]`` is such a name."""
    target = typing.get_origin(hint) or hint
    if type(target).__name__ != "TypeAliasType":  # Python 3.11 has none, but typing_extensions has one
        return hint
    parts = typing.get_args(hint)
    return resolve_alias(target.__value__[parts] if parts else target.__value__)


_KINDS: tuple[tuple[Any, Kind], ...] = ((jax.Array, "array"), (np.ndarray, "host"), (Tensor, "tensor"))
_ARRAY_LIKE: Any = resolve_alias(jax.typing.ArrayLike)
_PLAIN: dict[Any, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    np.dtype: "ScalarType",
    Device: "Device",
    Generator: "Generator",
    np.random.Generator: "Generator",  # the argument of a host kernel
}
_STATIC = {*_PLAIN, complex, bytes, None, types.NoneType, types.EllipsisType, types.FunctionType}
_CONTAINERS = {
    typing.Union,
    types.UnionType,
    tuple,
    list,
    dict,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Mapping,
}
_BARE = {list, typing.List, collections.abc.Sequence, typing.Sequence, tuple, typing.Tuple}  # noqa: UP006
_NUMBERS = ({int, float, bool}, {int, float, bool, complex})
_LISTED = ("Tensor", "int", "float", "bool", "str", "Scalar", "Enum")
_NO_CLASSES = (object, typing.Union, types.UnionType, typing.Annotated)
_TENSORS = ListType(BaseType("Tensor"))
_RETURNED = ("Tensor", "int", "float", "bool", "Scalar")


class UnsupportedHintError(Exception):
    """An annotation without a schema type; the text is advice, or empty."""


def find_hint_kind(hint: Any) -> Kind | None:
    """Returns the kernel kind of an annotation for one array, and None for every other annotation.

    jaxtyping is optional, so its annotations are recognized by their attribute ``array_type``.
    """
    hint = resolve_alias(hint)
    if hint == _ARRAY_LIKE:  # on arrays, numbers are taken too
        return "array"
    target = typing.get_origin(hint) or hint  # numpy.ndarray[shape, dtype]
    for array_type, kind in _KINDS:
        if target is array_type:
            return kind
    inside = getattr(hint, "array_type", None) if isinstance(hint, type) else None
    return None if inside is None else find_hint_kind(inside)


def is_array_like(parts: collections.abc.Sequence[Any]) -> bool:
    """Tells whether these are the parts of ``jax.typing.ArrayLike``, with or without None."""
    return set(parts) - {types.NoneType} == set(typing.get_args(_ARRAY_LIKE))


def read_hint(hint: Any) -> SchemaType:
    """Returns the schema type of a parameter annotated with ``hint``, or raises UnsupportedHintError."""
    hint = resolve_alias(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _read_union(parts)
    if origin in (list, collections.abc.Sequence) and parts:
        return _read_list(parts[0])
    if origin is tuple and parts:
        return _read_tuple(parts)
    return _read_base(hint)


def read_open_hint(hint: Any) -> SchemaType:
    """Returns the schema type of a parameter of a kernel on arrays, which takes anything.

    An annotation without a type of its own is static (``Any``) if it can hold no array, such as a callable or
    a tuple of tuples of numbers. Otherwise it is a pytree (``Tree``), and each value shows what is an array.
    A function such as ``jnp.array`` is refused: it stands for a class by mistake.
    """
    try:
        return read_hint(hint)
    except UnsupportedHintError:
        _refuse_mistake(hint)
        return ANY if is_static_hint(hint) else TREE


def _refuse_mistake(hint: Any) -> None:
    """Raises UnsupportedHintError, with advice, for an annotation that means another one."""
    hint = resolve_alias(hint)
    if isinstance(hint, types.FunctionType | types.BuiltinFunctionType):
        raise UnsupportedHintError("It is a function. Annotate a type, such as jax.Array or numpy.ndarray.")
    if getattr(hint, "__module__", "") == "torch" and getattr(hint, "__name__", "") == "Tensor":
        raise UnsupportedHintError("Write jax.Array, or oplib.Tensor for a kernel on Tensors.")
    if _is_bare(hint):
        raise UnsupportedHintError("Say of what: list[jax.Array], tuple[int, int].")


def _is_bare(hint: Any) -> bool:
    return any(hint is bare for bare in _BARE)


def is_static_hint(hint: Any) -> bool:
    """Tells whether no value of an annotation can hold an array."""
    hint = resolve_alias(hint)
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is collections.abc.Callable or origin is Literal or origin is type:
        return True
    if origin is typing.Annotated:
        return is_static_hint(parts[0])
    if origin in _CONTAINERS:
        return bool(parts) and all(part is Ellipsis or is_static_hint(part) for part in parts)
    return origin in _STATIC or (isinstance(origin, type) and issubclass(origin, (enum.Enum, np.generic)))


def read_return_hint(hint: Any) -> tuple[SchemaType, ...]:
    """Returns the schema types of results annotated ``-> hint``, or raises UnsupportedHintError."""
    hint = resolve_alias(hint)
    parts = typing.get_args(hint)
    if hint is None or hint is types.NoneType:
        return ()
    if typing.get_origin(hint) is not tuple or Ellipsis in parts:
        return (read_result_hint(hint),)
    read = tuple(map(read_result_hint, parts))
    return (TupleType(read),) if len(read) == 1 else read


def read_result_hint(hint: Any) -> SchemaType:
    """Returns the schema type of one result; an annotation without a type of its own is a pytree."""
    hint = resolve_alias(hint)
    try:
        type_ = read_hint(hint)
    except UnsupportedHintError:
        type_ = None
    is_plain = isinstance(type_, BaseType) and type_.name in _RETURNED and type_.choices is None
    if type_ is not None and (is_plain or (type_ == _TENSORS and typing.get_origin(hint) is list)):
        return type_
    if not _is_bare(hint):  # a result shows of what it is
        _refuse_mistake(hint)
    if is_static_hint(hint):
        raise UnsupportedHintError
    return BaseType("Any", container=_find_container(hint))


def _find_container(hint: Any) -> type | None:
    """Returns the class that an annotation of a pytree names; a class with checks of its own is none."""
    target: Any = typing.get_origin(hint) or hint
    if type(target) not in (type, abc.ABCMeta) or target in _NO_CLASSES:
        return None
    return target


def list_field_hints(hint: Any) -> list[Any]:
    """Returns the annotations of the fields of a ``NamedTuple`` or a dataclass; none for any other."""
    hint = resolve_alias(hint)
    target = typing.get_origin(hint) or hint
    if not isinstance(target, type) or not (is_dataclass(target) or hasattr(target, "_fields")):
        return []
    try:
        return list(typing.get_type_hints(target, include_extras=True).values())
    except Exception:  # noqa: BLE001  evaluating an annotation runs the user's code
        return []


def _read_base(hint: Any) -> SchemaType:
    if find_hint_kind(hint) is not None:
        return BaseType("Tensor")
    if typing.get_origin(hint) is Literal:
        return _read_literal(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum) and len(hint):
        return BaseType("Enum", tuple(hint))
    target = typing.get_origin(hint) or hint  # numpy.dtype[Any]
    name = _PLAIN.get(target) if isinstance(target, type) else None
    if name is None:
        _refuse_mistake(hint)
        raise UnsupportedHintError
    return BaseType(name)


def _read_union(parts: Values) -> SchemaType:
    inside = [part for part in parts if part is not types.NoneType]
    if is_array_like(parts):
        type_: SchemaType = BaseType("Tensor")
    elif all(isinstance(part, type) for part in inside) and set(inside) in _NUMBERS:
        type_ = BaseType("Scalar")
    elif len(inside) == 1:
        type_ = read_hint(inside[0])
    elif all(find_hint_kind(part) is not None for part in inside):  # Float[Array, ""] | Int[Array, ""]
        type_ = BaseType("Tensor")
    elif set(inside) == {int, float}:
        raise UnsupportedHintError("For any number, write int | float | bool.")
    else:
        raise UnsupportedHintError
    if len(inside) == len(parts) or isinstance(type_, OptionalType):
        return type_
    return OptionalType(type_)


def _read_list(part: Any, *, is_tuple: bool = False) -> SchemaType:
    element = read_hint(part)
    inside = element.element if isinstance(element, OptionalType) else element
    if isinstance(inside, ListType):
        raise UnsupportedHintError("Lists do not nest; pass the lengths beside a flat list.")
    if inside is not element and inside != BaseType("Tensor"):
        raise UnsupportedHintError("Only lists of tensors may hold None.")
    if isinstance(inside, BaseType) and inside.name not in _LISTED:
        raise UnsupportedHintError
    return ListType(element, is_tuple=is_tuple)


def _read_tuple(parts: Values) -> SchemaType:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return _read_list(parts[0], is_tuple=True)
    type_ = TupleType(tuple(map(read_hint, parts)))
    if has_tensor(type_):
        raise UnsupportedHintError(
            "A tuple type holds no tensors: write list[...], or one parameter for each."
        )
    return type_


def _read_literal(values: Values) -> SchemaType:
    """Returns the common type of the values of a ``Literal``; a None among the values makes it optional."""
    choices = tuple(pick_given(values))
    kinds = {*map(type, choices)}
    if len(kinds) != 1:
        raise UnsupportedHintError("The values of a Literal must be of one type.")
    kind = kinds.pop()
    name = "Enum" if issubclass(kind, enum.Enum) else {int: "int", bool: "bool", str: "str"}.get(kind)
    if name is None:
        raise UnsupportedHintError
    type_ = BaseType(name, choices)
    return type_ if len(choices) == len(values) else OptionalType(type_)
