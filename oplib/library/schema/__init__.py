"""The schema language: the arguments and returns of an op, as text and as records."""

from .function_schema import NO_DEFAULT as NO_DEFAULT
from .function_schema import Argument as Argument
from .function_schema import FunctionSchema as FunctionSchema
from .function_schema import Return as Return
from .function_schema import fill_defaults as fill_defaults
from .function_schema import has_kwarg_only_args as has_kwarg_only_args
from .function_schema import has_kwarg_only_tensors as has_kwarg_only_tensors
from .function_schema import split_values as split_values
from .parser import parse_schema as parse_schema
from .types import ANY as ANY
from .types import BASE_TYPES as BASE_TYPES
from .types import TREE as TREE
from .types import AliasInfo as AliasInfo
from .types import BaseType as BaseType
from .types import EnumDefault as EnumDefault
from .types import ListType as ListType
from .types import OptionalType as OptionalType
from .types import SchemaType as SchemaType
from .types import TupleType as TupleType
from .types import has_tensor as has_tensor
from .types import is_int64 as is_int64
from .types import is_tensorlist_like_type as is_tensorlist_like_type
