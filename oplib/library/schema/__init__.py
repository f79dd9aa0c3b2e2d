"""The schema language: the arguments and returns of an op, as text and as records."""

from .function_schema import (
    NO_DEFAULT,
    Argument,
    FunctionSchema,
    Return,
    fill_defaults,
    has_kwarg_only_args,
    has_kwarg_only_tensors,
    split_values,
)
from .parser import parse_schema
from .types import (
    ANY,
    TREE,
    AliasInfo,
    BaseType,
    EnumDefault,
    ListType,
    OptionalType,
    SchemaType,
    TupleType,
    has_tensor,
    is_tensorlist_like_type,
)

__all__ = [
    "ANY",
    "NO_DEFAULT",
    "TREE",
    "AliasInfo",
    "Argument",
    "BaseType",
    "EnumDefault",
    "FunctionSchema",
    "ListType",
    "OptionalType",
    "Return",
    "SchemaType",
    "TupleType",
    "fill_defaults",
    "has_kwarg_only_args",
    "has_kwarg_only_tensors",
    "has_tensor",
    "is_tensorlist_like_type",
    "parse_schema",
    "split_values",
]
