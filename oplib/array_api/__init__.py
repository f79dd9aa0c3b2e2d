"""The functions of oplib under the names of the Python array API standard 2024.12.

It is what ``tensor.__array_namespace__()`` returns. Most functions are those of oplib. The others are here,
because their arguments or results differ. Each is recorded as the ops that it calls.

Example:
    >>> import oplib
    >>> x = oplib.tensor([[1.0, 4.0], [3.0, 2.0]])
    >>> xp = x.__array_namespace__()
    >>> xp.max(x, axis=1), xp.std(x)
    (tensor([4., 3.]), tensor(1.1180))
"""

from __future__ import annotations

import math
from collections import ChainMap
from typing import Any

from oplib.builtin.public_functions.registry import FUNCTIONS
from oplib.tensor.dtypes import names as _dtypes
from oplib.torch_names import make_lookups as _make_lookups

from . import creation, dtype_functions, fft, linalg, reductions, searching, shapes
from .dtype_functions import NamespaceInfo as NamespaceInfo

__array_api_version__ = "2024.12"
_SAME = [
    "abs",
    "acos",
    "acosh",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_shapes",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "diff",
    "divide",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "moveaxis",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "stack",
    "subtract",
    "tan",
    "tanh",
    "tile",
    "trunc",
    "where",
]
_RENAMED = {"bitwise_invert": "bitwise_not", "equal": "eq", "sign": "sgn"}
_OWN: dict[str, Any] = {
    **{name: getattr(math, name) for name in ("e", "inf", "nan", "pi")},
    "fft": fft,
    "linalg": linalg,
    "newaxis": None,
    **creation.FUNCTIONS,
    **dtype_functions.FUNCTIONS,
    **reductions.FUNCTIONS,
    **searching.FUNCTIONS,
    **shapes.FUNCTIONS,
    **{name: linalg.FUNCTIONS[name] for name in ("matrix_transpose", "tensordot", "vecdot")},
}
_DTYPES = {
    name: getattr(_dtypes, name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
}


_VALUES = ChainMap(_OWN | _DTYPES, FUNCTIONS.rename(dict(zip(_SAME, _SAME, strict=True)) | _RENAMED))  # pyright: ignore[reportArgumentType]  it is only read
__all__ = sorted(  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
    {*_VALUES, "__array_namespace_info__"}
)
__getattr__, __dir__ = _make_lookups(globals(), _VALUES)


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  the standard's name
    """Returns what the namespace can do: dtypes, devices, capabilities."""
    return NamespaceInfo()
