"""The frozen records of a schema: the op's name, its arguments and its returns."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from oplib.protocols import Values

from .types import (
    ANY,
    OPTIONAL_TENSOR,
    TENSOR,
    TREE,
    AliasInfo,
    ListType,
    OptionalType,
    SchemaType,
    TupleType,
    has_tensor as type_has_tensor,
    is_tensorlist_like_type,
    print_default,
    print_type,
)


class NoDefault(enum.Enum):
    """The type of :data:`NO_DEFAULT`; an enum member keeps its identity when it is pickled."""

    NO_DEFAULT = "no default"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


class Typed:
    """Facts about tensors in the type of an argument or a result."""

    type: SchemaType

    @cached_property
    def is_tensor(self) -> bool:
        """Whether the type is exactly ``Tensor``."""
        return self.type == TENSOR

    @cached_property
    def is_tensor_list(self) -> bool:
        """Whether the type is one of the four lists of tensors, see :func:`is_tensorlist_like_type`."""
        return is_tensorlist_like_type(self.type)

    @cached_property
    def is_tensor_tuple(self) -> bool:
        """Whether it is a list of tensors that code gets as a tuple."""
        type_ = self.type.element if isinstance(self.type, OptionalType) else self.type
        return self.is_tensor_list and isinstance(type_, ListType) and type_.is_tuple

    @cached_property
    def has_tensor(self) -> bool:
        """Whether the type contains tensors at any depth."""
        return type_has_tensor(self.type)


@dataclass(frozen=True)
class Return(Typed):
    """One declared result; ``name`` is empty if the schema gives none."""

    type: SchemaType
    name: str = ""
    alias_info: AliasInfo | None = None

    @cached_property
    def is_tree(self) -> bool:
        """Whether the value is a pytree."""
        return self.type in (ANY, TREE)

    @cached_property
    def is_view(self) -> bool:
        """Whether the result shares memory with an argument that is not written: ``Tensor(a)``."""
        return self.alias_info is not None and not self.alias_info.is_write

    def __str__(self) -> str:
        text = print_type(self.type, self.alias_info)
        return f"{text} {self.name}" if self.name else text


@dataclass(frozen=True)
class Argument(Typed):
    """One declared argument.

    Args:
        name: the name of the argument.
        type: its schema type.
        default: the frozen default (a list as a tuple), or :data:`NO_DEFAULT`; read it as ``default_value``.
        kwarg_only: the argument can only be given by keyword.
        alias_info: its alias mark.
        is_variadic: the argument is a list that takes all further positional arguments, as ``*xs`` does.

    Two arguments are equal if they print alike. So ``1``, ``1.0`` and ``True`` are different defaults, and
    ``nan`` equals itself.
    """

    name: str
    type: SchemaType
    default: Any = field(default=NO_DEFAULT, compare=False)
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    is_variadic: bool = False
    default_text: str | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        frozen = freeze_default(self.default)
        text = None if frozen is NO_DEFAULT else print_default(self.type, frozen)
        object.__setattr__(self, "default", frozen)
        object.__setattr__(self, "default_text", text)

    def has_default_value(self) -> bool:
        """Tells whether the argument has a default."""
        return self.default is not NO_DEFAULT

    @property
    def default_value(self) -> Any:
        """The default, with new lists at each read; None if there is no default."""
        return None if self.default is NO_DEFAULT else thaw(self.type, self.default)

    @cached_property
    def is_tree(self) -> bool:
        """Whether the value is a pytree, whose arrays are operands."""
        return str(self.type).removesuffix("?") == "Tree"

    @cached_property
    def is_object(self) -> bool:
        """Whether the value is any static object, such as a function."""
        return str(self.type).removesuffix("?") == "Any"

    @cached_property
    def is_optional_tensor(self) -> bool:
        """Whether the type is exactly ``Tensor?``."""
        return self.type == OPTIONAL_TENSOR

    @cached_property
    def is_generator(self) -> bool:
        """Whether the type is exactly ``Generator`` or ``Generator?``."""
        return str(self.type).removesuffix("?") == "Generator"

    @cached_property
    def is_written(self) -> bool:
        """Whether the op writes the argument or an element of it."""
        return self.alias_info is not None and self.alias_info.is_write

    def __str__(self) -> str:
        star = "*" if self.is_variadic else ""
        text = f"{print_type(self.type, self.alias_info)} {star}{self.name}"
        return text if self.default_text is None else f"{text}={self.default_text}"


@dataclass(frozen=True)
class FunctionSchema:
    """The signature of one overload of an op.

    Args:
        name: the name of the op, with ``ns::`` if it was given.
        overload_name: the name of the overload; empty for the default overload.
        arguments: the positional arguments, then the keyword-only arguments.
        returns: the declared results, in order.

    ``str(schema)`` is the canonical text, and parsing it gives an equal schema.
    """

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    @cached_property
    def is_mutable(self) -> bool:
        """Whether the op writes an argument."""
        return any(argument.is_written for argument in self.arguments)

    @cached_property
    def returned_arguments(self) -> tuple[int | None, ...]:
        """For each result, the position of the written argument that it returns (``Tensor(a!)``), or None."""
        return tuple(map(self._find_returned, self.returns))

    def _find_returned(self, returned: Return) -> int | None:
        mark = returned.alias_info
        if mark is None or not mark.is_write or not returned.is_tensor:
            return None
        for index, argument in enumerate(self.arguments):
            own = argument.alias_info
            if own is not None and own.is_write and own.before_set & mark.before_set:
                return index
        return None

    @cached_property
    def num_positional(self) -> int:
        """The number of arguments that can be given by position; they come first."""
        return sum(not argument.kwarg_only for argument in self.arguments)

    @cached_property
    def is_variadic(self) -> bool:
        """Whether the last positional argument takes all further ones."""
        return any(argument.is_variadic for argument in self.arguments)

    @cached_property
    def has_result_tree(self) -> bool:
        """Whether a result is a pytree."""
        return any(returned.is_tree for returned in self.returns)

    @cached_property
    def result_checks(self) -> dict[str, Any]:
        """The functions that check results, by what returned them. Equal schemas may name other classes."""
        return {}

    def spread(self, values: Sequence[Any]) -> Sequence[Any]:
        """Returns one value per argument with the members of the variadic one among them."""
        if not self.is_variadic:
            return values
        last = self.num_positional - 1
        return [*values[:last], *values[last], *values[last + 1 :]]

    @cached_property
    def qualified_name(self) -> str:
        """``ns::name`` or ``ns::name.overload``, as error messages show it."""
        return f"{self.name}.{self.overload_name}" if self.overload_name else self.name

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        arguments = list(map(str, self.arguments))
        if self.num_positional < len(arguments):
            arguments.insert(self.num_positional, "*")
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1 or returns.startswith("("):
            returns = f"({returns})"
        return f"{self.qualified_name}({', '.join(arguments)}) -> {returns}"

    @cached_property
    def _hash(self) -> int:
        return hash(self._text)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Values:
        return FunctionSchema, (self.name, self.overload_name, self.arguments, self.returns)


def has_kwarg_only_args(schema: FunctionSchema) -> bool:
    """Tells whether a schema has a keyword-only argument."""
    return schema.num_positional < len(schema.arguments)


def has_kwarg_only_tensors(schema: FunctionSchema) -> bool:
    """Tells whether a schema has a keyword-only tensor or list of tensors."""
    return any(argument.has_tensor for argument in schema.arguments[schema.num_positional :])


def fill_defaults(
    schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Values, dict[str, Any]]:
    """Completes a call with the defaults of its schema."""
    positional = schema.arguments[: schema.num_positional]
    keyword_only = schema.arguments[schema.num_positional :]
    passed = tuple(args[: len(positional)])
    filled = passed + tuple(argument.default_value for argument in positional[len(passed) :])
    return filled, {
        argument.name: kwargs.get(argument.name, argument.default_value) for argument in keyword_only
    }


def split_values(schema: FunctionSchema, values: Sequence[Any]) -> tuple[Values, dict[str, Any]]:
    """Splits one value per argument into positional and keyword-only values.

    Returns:
        The positional values as a tuple, those of a variadic argument one by one, and the keyword-only values
        by name.
    """
    count = schema.num_positional
    names = [argument.name for argument in schema.arguments[count:]]
    return tuple(schema.spread(values[:count])), dict(zip(names, values[count:], strict=True))


def freeze_default(value: Any) -> Any:
    """Returns a default with its lists as tuples, so that a frozen record can hold it."""
    return tuple(map(freeze_default, value)) if isinstance(value, (list, tuple)) else value


def thaw(type_: SchemaType, value: Any) -> Any:
    """Returns a frozen default as the op receives it: a new list if the type is a list."""
    if isinstance(type_, OptionalType):
        return None if value is None else thaw(type_.element, value)
    if isinstance(type_, ListType) and isinstance(value, tuple):
        items = [thaw(type_.element, item) for item in value]
        return tuple(items) if type_.is_tuple else items
    if isinstance(type_, TupleType) and isinstance(value, tuple):
        return tuple(map(thaw, type_.elements, value))
    return value
