"""The schema language: the arguments and returns of an op, as text and as records."""

from .function_schema import (
    NO_DEFAULT as NO_DEFAULT,
    Argument as Argument,
    FunctionSchema as FunctionSchema,
    Return as Return,
    fill_defaults as fill_defaults,
    has_kwarg_only_args as has_kwarg_only_args,
    has_kwarg_only_tensors as has_kwarg_only_tensors,
    split_values as split_values,
)
from .parser import parse_schema as parse_schema
from .types import (
    ANY as ANY,
    BASE_TYPES as BASE_TYPES,
    TREE as TREE,
    AliasInfo as AliasInfo,
    BaseType as BaseType,
    EnumDefault as EnumDefault,
    ListType as ListType,
    OptionalType as OptionalType,
    SchemaType as SchemaType,
    TupleType as TupleType,
    has_tensor as has_tensor,
    is_int64 as is_int64,
    is_tensorlist_like_type as is_tensorlist_like_type,
)
