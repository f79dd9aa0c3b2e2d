"""Torch's names of tensor classes, one for each dtype and type of device, as ``Tensor.type`` gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.errors import ArgumentValueError

from . import names as dtypes

WORDS = {
    dtypes.float16: "Half",
    dtypes.bfloat16: "BFloat16",
    dtypes.float32: "Float",
    dtypes.float64: "Double",
    dtypes.float8_e4m3fn: "Float8_e4m3fn",
    dtypes.float8_e4m3fnuz: "Float8_e4m3fnuz",
    dtypes.float8_e5m2: "Float8_e5m2",
    dtypes.float8_e5m2fnuz: "Float8_e5m2fnuz",
    dtypes.complex64: "ComplexFloat",
    dtypes.complex128: "ComplexDouble",
    dtypes.uint8: "Byte",
    dtypes.uint16: "UInt16",
    dtypes.uint32: "UInt32",
    dtypes.uint64: "UInt64",
    dtypes.int8: "Char",
    dtypes.int16: "Short",
    dtypes.int32: "Int",
    dtypes.int64: "Long",
    dtypes.bool: "Bool",
}
"""Torch's word for each dtype."""

_DTYPES = {f"{word}Tensor": dtype for dtype, word in WORDS.items()}


def name_class(dtype: np.dtype[Any], device_type: str) -> str:
    """Returns the name of the class of tensors with a dtype on a type of device.

    Args:
        dtype: the dtype.
        device_type: "cpu" and "abstract" are not named.

    Example:
        >>> name_class(dtypes.float32, "cpu"), name_class(dtypes.bool, "cuda")
        ('oplib.FloatTensor', 'oplib.cuda.BoolTensor')
    """
    prefix = "" if device_type in ("cpu", "abstract") else f"{device_type}."
    return f"oplib.{prefix}{WORDS[dtype]}Tensor"


def read_class(name: str) -> tuple[np.dtype[Any], str]:
    """Returns the dtype and the type of device of a name, which may be torch's, ``torch.FloatTensor``.

    Raises:
        ArgumentValueError: there is no such class.
    """
    library, _, rest = name.partition(".")
    device_type, _, last = rest.rpartition(".")
    if library not in ("oplib", "torch") or last not in _DTYPES:
        raise ArgumentValueError(
            f"type: invalid type. Got {name!r}. Give a dtype, or a name such as 'oplib.FloatTensor'."
        )
    return _DTYPES[last], device_type or "cpu"
