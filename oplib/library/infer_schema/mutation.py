"""The parameters that a function writes, and their effect on the declared returns."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol

from oplib.errors import describe
from oplib.library.schema import (
    AliasInfo,
    Argument,
    BaseType,
    ListType,
    OptionalType,
    Return,
    SchemaType,
    is_tensorlist_like_type,
)

from .hints import SUPPORTED_RETURNS, UnsupportedHintError, read_hint, read_result_hint, read_return_hint
from .signatures import EMPTY, Signature

TENSOR = BaseType("Tensor")


class NamedTag(Protocol):
    """A tag, of which this module reads only the name."""

    @property
    def name(self) -> str:
        """``inplace``, ``out``, or another name that does not affect schemas."""
        ...


Tags = Iterable[NamedTag]


def read_written(
    signature: Signature, types: Mapping[str, SchemaType], mutates_args: Iterable[str]
) -> frozenset[str]:
    """Returns the names of the written parameters.

    Raises:
        SchemaInferenceError: a name is unknown or holds no tensor, or a string is not ``"unknown"``.
    """
    tensors = frozenset(name for name, type_ in types.items() if _is_writable(type_))
    if isinstance(mutates_args, str):
        if mutates_args != "unknown":
            raise signature.refuse(
                f"mutates_args is a sequence of names or the string 'unknown'. Got {describe(mutates_args)}. "
                f"Write mutates_args=({mutates_args!r},)."
            )
        return tensors
    written = frozenset(mutates_args)
    missing = sorted(written - types.keys())
    if missing:
        raise signature.refuse(
            f"mutates_args has names that were not found in the signature: {', '.join(missing)}. "
            f"It has {', '.join(types) or 'no parameters'}. Name one of these, or leave it out."
        )
    for name in sorted(written - tensors):
        raise signature.refuse(
            f"Parameter {name} is in mutates_args, but only Tensors or lists of Tensors can be mutated. "
            f"Its type is '{types[name]}'. Take it out, or make it a Tensor."
        )
    return written


def mark_written(type_: SchemaType, name: str) -> AliasInfo:
    """Returns the alias mark for the ``Tensor`` of a type: ``Tensor(a!)[]``."""
    inside = type_.element if isinstance(type_, OptionalType) else type_
    if isinstance(inside, ListType):
        return AliasInfo(True, frozenset(), elements=(mark_written(inside.element, name),))
    return AliasInfo(True, frozenset({name}))


def infer_returns(
    signature: Signature, arguments: tuple[Argument, ...], tags: Tags | NamedTag | None, *, is_array: bool
) -> tuple[Return, ...]:
    """Returns the results that the schema declares.

    Args:
        signature: the signature of the function.
        arguments: the arguments of the schema, with marks on the written ones.
        tags: ``inplace`` or ``out`` make the returns the written arguments themselves.
        is_array: the kernel returns the new values of written arguments before its results.

    Raises:
        SchemaInferenceError: an unsupported annotation, or one that breaks a rule of a tag.
    """
    if signature.returned is EMPTY:
        raise signature.refuse(f"No return type annotation was provided. {SUPPORTED_RETURNS}.")
    names = _name_tags(tags)
    if {"inplace", "out"} <= names:
        raise signature.refuse("Tag.inplace and Tag.out are mutually exclusive. Got both. Keep one of them.")
    if "inplace" in names:
        return _infer_inplace_return(signature, arguments)
    if "out" in names:
        return _infer_out_returns(signature, arguments)
    written = [argument for argument in arguments if argument.is_written]
    if is_array and written:
        return _infer_returns_after_written(signature, written)
    return tuple(map(Return, _read_returns(signature, signature.returned)))


def refuse_return(signature: Signature) -> None:
    """Raises SchemaInferenceError if no result can have the return annotation."""
    if signature.returned is not EMPTY:
        _read_returns(signature, signature.returned)


def _is_writable(type_: SchemaType) -> bool:
    inside = type_.element if isinstance(type_, OptionalType) else type_
    return inside == TENSOR or is_tensorlist_like_type(type_)


def _name_tags(tags: Tags | NamedTag | None) -> set[str]:
    if tags is None:
        return set()
    return {tag.name for tag in tags} if isinstance(tags, Iterable) else {tags.name}


def _read_returns(signature: Signature, hint: Any, read: Any = read_return_hint) -> Any:
    try:
        return read(hint)
    except UnsupportedHintError as error:
        advice = str(error) or f"{SUPPORTED_RETURNS}."
        raise signature.refuse(f"Return has unsupported type {render_hint(hint)}. {advice}") from None


def _infer_inplace_return(signature: Signature, arguments: tuple[Argument, ...]) -> tuple[Return, ...]:
    first = next((argument for argument in arguments if not argument.kwarg_only), None)
    if first is None:
        raise signature.refuse(
            "Tag.inplace requires a positional Tensor argument. Got none. Put the written one before *."
        )
    if not first.is_tensor:
        raise signature.refuse(
            f"Tag.inplace requires the first positional argument to be a Tensor. "
            f"Parameter {first.name} is '{first.type}'. Put the written one first."
        )
    written = [argument.name for argument in arguments if argument.is_written]
    if written != [first.name]:
        raise signature.refuse(
            f"Tag.inplace requires mutates_args to contain exactly the first positional argument. "
            f"Got {written}. Write mutates_args=({first.name!r},)."
        )
    if _read_returns(signature, signature.returned) != (TENSOR,):
        raise signature.refuse(
            f"Tag.inplace requires the return annotation to be a Tensor. Got "
            f"{render_hint(signature.returned)}. Return {first.name}."
        )
    return (Return(TENSOR, alias_info=first.alias_info),)


def _infer_out_returns(signature: Signature, arguments: tuple[Argument, ...]) -> tuple[Return, ...]:
    written = [argument for argument in arguments if argument.is_written]
    for argument in written:
        if not argument.kwarg_only:
            raise signature.refuse(
                f"Tag.out requires mutable arguments to be keyword-only. Parameter {argument.name} is not. "
                f"Put it behind *."
            )
        if not argument.is_tensor:
            raise signature.refuse(
                f"Tag.out only supports mutable keyword-only Tensor arguments. "
                f"Parameter {argument.name} is '{argument.type}'. Make it a Tensor, or leave the tag out."
            )
    if not written:
        raise signature.refuse(
            "Tag.out requires at least one mutable keyword-only Tensor argument. Got none. Name it in "
            "mutates_args."
        )
    if _read_returns(signature, signature.returned) != (TENSOR,) * len(written):
        raise signature.refuse(
            f"Tag.out requires the return annotation to match the mutable keyword-only Tensor arguments "
            f"{', '.join(argument.name for argument in written)}. Got {render_hint(signature.returned)}. "
            "Annotate one Tensor for each."
        )
    return tuple(Return(TENSOR, alias_info=argument.alias_info) for argument in written)


def _infer_returns_after_written(signature: Signature, written: list[Argument]) -> tuple[Return, ...]:
    """Returns the declared results: the rest of an array kernel's annotation after the new values."""
    hint = signature.returned
    is_tuple = typing.get_origin(hint) is tuple
    parts = typing.get_args(hint) if is_tuple else (hint,)
    fits = len(parts) >= len(written) and not (is_tuple and len(parts) == 1)
    if not fits or list(map(_read_or_none, parts[: len(written)])) != [argument.type for argument in written]:
        raise signature.refuse(
            f"Return annotation {render_hint(hint)} does not begin with the new values of the written "
            f"arguments {', '.join(f'{argument.name} ({argument.type})' for argument in written)}. A kernel "
            f"on arrays returns them, in this order, before its results. Annotate it accordingly."
        )
    declared = parts[len(written) :]
    return tuple(Return(_read_returns(signature, part, read_result_hint)) for part in declared)


def _read_or_none(hint: Any) -> SchemaType | None:
    try:
        return read_hint(hint)
    except UnsupportedHintError:
        return None


def render_hint(hint: Any) -> str:
    """Returns an annotation as code spells it."""
    if isinstance(hint, type | FunctionType | BuiltinFunctionType) and not typing.get_args(hint):
        return hint.__name__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return str(hint)
