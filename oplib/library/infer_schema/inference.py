"""``infer_schema``: the schema, and the kind of kernel, that follow from a function's signature."""

from __future__ import annotations

import collections.abc
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import Parameter
from typing import Any

from oplib.errors import describe
from oplib.library.schema import (
    NO_DEFAULT,
    Argument,
    BaseType,
    FunctionSchema,
    ListType,
    OptionalType,
    SchemaType,
    TupleType,
)
from oplib.library.schema.defaults import UnsupportedDefaultError, fit_value
from oplib.protocols import AnyFunction, Values
from oplib.tracebacks import entry_point

from .hints import (
    SUPPORTED,
    Kind,
    UnsupportedHintError,
    find_hint_kind,
    is_array_like,
    list_field_hints,
    read_hint,
    read_open_hint,
    resolve_alias,
)
from .mutation import (
    NamedTag,
    Tags,
    infer_returns,
    mark_written,
    read_written,
    refuse_return,
    render_hint,
)
from .signatures import EMPTY, NoSignatureError, Signature, read_signature


@entry_point
def infer_schema(
    prototype_function: AnyFunction,
    /,
    *,
    mutates_args: Iterable[str] = (),
    op_name: str | None = None,
    tags: Tags | NamedTag | None = (),
) -> str:
    """Returns the schema that follows from a function's annotations, defaults and parameter kinds.

    Args:
        prototype_function: any callable with a signature; every parameter and the return are annotated.
        mutates_args: the names of the arguments that the function writes, or ``"unknown"`` for every tensor.
        op_name: the name at the start of the text, possibly ``ns::name``.
        tags: ``Tag.inplace`` or ``Tag.out``, which determine the returns.

    Returns:
        The canonical text. An array kernel that writes arguments returns their new values first; the schema
        omits these.

    Raises:
        SchemaInferenceError: a parameter or default that no schema can have, an unknown name in
            ``mutates_args``, or a signature that breaks a rule of its tags. The text names the parameter.

    Source:
        ``torch.library.infer_schema``. Tuples, ``Literal``, ``Enum``, ``list[str]`` and
        ``Optional[list[Tensor]]`` are additions.

    Example:
        >>> import jax
        >>> def scale(x: jax.Array, by: float = 2, *, sizes: tuple[int, int] = (1, 2)) -> jax.Array: ...
        >>> infer_schema(scale, op_name="demo::scale")
        'demo::scale(Tensor x, float by=2., *, (int, int) sizes=(1, 2)) -> Tensor'
    """
    schema = infer_function_schema(prototype_function, mutates_args=mutates_args, tags=tags)
    return f"{op_name or ''}{schema}"


def infer_function_schema(
    fn: AnyFunction,
    /,
    *,
    mutates_args: Iterable[str] = (),
    name: str = "",
    overload_name: str = "",
    tags: Tags | NamedTag | None = (),
) -> FunctionSchema:
    """Infers a schema as :func:`infer_schema`, and keeps the choices of enums and literals, which text omits.

    Args:
        fn: any callable with a signature.
        mutates_args: the names of the arguments that it writes, or ``"unknown"``.
        name: the name of the op with its namespace.
        overload_name: the name of the overload; empty for the default overload.
        tags: ``Tag.inplace`` or ``Tag.out``.

    Raises:
        SchemaInferenceError: as :func:`infer_schema`.
    """
    signature = read_signature(fn)
    kind = find_signature_kind(signature) or ("array" if _takes_anything(signature) else None)
    refuse_return(signature)  # before the parameters, which are blamed if the return hides the kind
    read = _read_type if kind in (None, "tensor") else _read_any_type
    types = {parameter.name: read(signature, parameter) for parameter in signature.parameters}
    written = read_written(signature, types, mutates_args)
    arguments = tuple(
        _make_argument(
            signature, parameter, types[parameter.name], f"a{index}" if parameter.name in written else ""
        )
        for index, parameter in enumerate(signature.parameters)
    )
    returns = infer_returns(signature, arguments, tags, is_array=kind == "array")
    return FunctionSchema(name, overload_name, arguments, returns)


def _read_type(signature: Signature, parameter: Parameter) -> SchemaType:
    if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
        raise signature.refuse(
            f"Parameter {parameter.name} is one. We do not support positional-only args, varargs, or "
            f"varkwargs. Give it a name of its own; for many tensors, annotate list[Tensor]."
        )
    _require_hint(signature, parameter)
    return _read_parameter(signature, parameter, read_hint)


def _read_parameter(
    signature: Signature, parameter: Parameter, read: Callable[[Any], SchemaType]
) -> SchemaType:
    try:
        return read(parameter.annotation)
    except UnsupportedHintError as error:
        hint = render_hint(parameter.annotation)
        raise signature.refuse(
            f"Parameter {parameter.name} has unsupported type {hint}. {str(error) or f'{SUPPORTED}.'}"
        ) from None


def _read_any_type(signature: Signature, parameter: Parameter) -> SchemaType:
    """Reads a parameter of a kernel on arrays, which takes what ``jax.custom_vjp`` does."""
    if parameter.kind is Parameter.VAR_KEYWORD:
        raise signature.refuse(
            f"Parameter {parameter.name} is one. We do not support varkwargs. Annotate a dict of arrays, or "
            "write one parameter for each."
        )
    _require_hint(signature, parameter)
    if parameter.kind is not Parameter.VAR_POSITIONAL:
        return _read_parameter(signature, parameter, read_open_hint)
    if find_hint_kind(parameter.annotation) is None:
        raise signature.refuse(
            f"Parameter *{parameter.name} has unsupported type {render_hint(parameter.annotation)}. Only "
            "tensors can be variadic. Annotate jax.Array, or pass one tuple or list."
        )
    return ListType(read_hint(parameter.annotation))


def _require_hint(signature: Signature, parameter: Parameter) -> None:
    if parameter.annotation is not EMPTY:
        return
    if signature.title == "<lambda>":
        cure = "A lambda cannot have one: write a def, or give the op a schema."
    elif parameter.name in ("self", "cls") and parameter is signature.parameters[0]:
        cure = "An op is a function: move it out of the class, or make it static; give state as arguments."
    else:
        cure = f"{SUPPORTED}."
    raise signature.refuse(f"Parameter {parameter.name} must have a type annotation. {cure}")


def _make_argument(signature: Signature, parameter: Parameter, type_: SchemaType, mark: str) -> Argument:
    default = NO_DEFAULT
    if parameter.default is not EMPTY:
        try:
            default = _fit_default(type_, parameter.default, parameter.annotation)
        except (UnsupportedDefaultError, TypeError):
            raise signature.refuse(
                f"Parameter {parameter.name} has an unsupported default value type "
                f"{type(parameter.default).__name__}. Got {describe(parameter.default)} for type '{type_}'. "
                "It is None, a number, string, dtype, device or enum member, or a tuple for a tuple type."
            ) from None
    alias = mark_written(type_, mark) if mark else None
    return Argument(
        parameter.name,
        type_,
        default,
        kwarg_only=parameter.kind is Parameter.KEYWORD_ONLY,
        alias_info=alias,
        is_variadic=parameter.kind is Parameter.VAR_POSITIONAL,
    )


_SPELLINGS: dict[Kind, str] = {"array": "jax.Array", "host": "numpy.ndarray", "tensor": "Tensor"}


def infer_kind(fn: AnyFunction) -> Kind | None:
    """Returns the kind of arrays that a kernel works on, by its annotations.

    Args:
        fn: any callable.

    Returns:
        ``"array"`` for ``jax.Array`` (a JAX function), ``"host"`` for ``numpy.ndarray`` (Python on numpy
        arrays), ``"tensor"`` for ``Tensor`` (eager code). None if no parameter and no return has such an
        annotation.

    Raises:
        SchemaInferenceError: two kinds in one signature, or an annotation that names no type.

    Example:
        >>> def negate(x: jax.Array) -> jax.Array:
        ...     return -x
        >>> import jax
        >>> infer_kind(negate)
        'array'
    """
    try:
        return find_signature_kind(read_signature(fn))
    except NoSignatureError:
        return None


def takes_anything(fn: AnyFunction) -> bool:
    """Tells whether a parameter of a kernel is annotated ``Any``, which is a pytree of arrays."""
    try:
        return _takes_anything(read_signature(fn))
    except NoSignatureError:
        return False


def _takes_anything(signature: Signature) -> bool:
    return any(parameter.annotation is Any for parameter in signature.parameters)


def find_signature_kind(signature: Signature) -> Kind | None:
    """Returns the single kind of a signature; raises SchemaInferenceError if it has two.

    The fields of classes count if nothing else names a kind.
    """
    return _find_kind(signature, _find_kinds) or _find_kind(signature, partial(_find_field_kinds, seen=()))


def _find_kind(signature: Signature, find: Callable[[Any], Iterator[Kind]]) -> Kind | None:
    hints = [(f"Parameter {parameter.name}", parameter.annotation) for parameter in signature.parameters]
    first: tuple[str, Kind] | None = None
    for subject, hint in (*hints, ("the return", signature.returned)):
        for kind in find(hint):
            if first is None:
                first = subject, kind
            elif first[1] != kind:
                raise signature.refuse(
                    f"{first[0]} is annotated {_SPELLINGS[first[1]]}, {subject} {_SPELLINGS[kind]}. "
                    f"A kernel works on one kind of array. Annotate both alike."
                )
    return None if first is None else first[1]


def _find_field_kinds(hint: Any, seen: Values) -> Iterator[Kind]:
    """Yields the kinds in the fields of a ``NamedTuple`` or a dataclass, and of the classes in them."""
    for inside in typing.get_args(resolve_alias(hint)):
        yield from _find_field_kinds(inside, seen)
    if hint not in seen:
        for field in list_field_hints(hint):
            yield from _find_kinds(field)
            yield from _find_field_kinds(field, (*seen, hint))


def _find_kinds(hint: Any) -> Iterator[Kind]:
    kind = find_hint_kind(hint)
    if kind is not None:
        yield kind
        return
    hint = resolve_alias(hint)
    if typing.get_origin(hint) is collections.abc.Callable:  # it is static, whatever it takes
        return
    parts = typing.get_args(hint)
    if is_array_like(parts):
        yield "array"
        return
    if len({*map(find_hint_kind, parts)} - {None}) > 1:  # arrays of any kind are a pytree
        return
    for part in parts:
        yield from _find_kinds(part)


def _fit_default(type_: SchemaType, value: Any, hint: Any) -> Any:
    """Returns a default as a value of its type, or raises UnsupportedDefaultError or TypeError.

    The annotation decides whether a sequence is a tuple.
    """
    if isinstance(type_, OptionalType):
        return None if value is None else _fit_default(type_.element, value, hint)
    # A list is mutable; and a kernel that declares a list must not receive a tuple.
    if isinstance(type_, (ListType, TupleType)) and isinstance(value, tuple) and _is_tuple_hint(hint):
        elements = (type_.element,) * len(value) if isinstance(type_, ListType) else type_.elements
        if len(elements) == len(value):
            return tuple(_fit_default(*pair, hint) for pair in zip(elements, value, strict=True))
    if isinstance(type_, BaseType) and (type_.choices is None or _is_choice(value, type_.choices)):
        return fit_value(type_.name, value)
    raise UnsupportedDefaultError


def _is_choice(value: Any, choices: Values) -> bool:
    return any(type(value) is type(choice) and value == choice for choice in choices)


def _is_tuple_hint(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple or any(map(_is_tuple_hint, typing.get_args(hint)))
