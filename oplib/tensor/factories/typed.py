"""``FloatTensor``, ``LongTensor`` and their kin: torch's classes of tensors of one dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.errors import DataTypeError, describe
from oplib.tensor.devices.placement import find_placement
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import default_int_dtype, normalize_dtype
from oplib.tensor.shapes.construction import construct
from oplib.tensor.tensor import Tensor
from oplib.tracebacks import entry_point


class TensorType(type):
    """The class of :class:`FloatTensor` and its kin, whose instances are Tensors of one dtype on any device.

    A call makes a plain Tensor, from data or sizes as ``oplib.Tensor`` does. They serve as annotations, in
    ``isinstance``, and as the argument of ``Tensor.type``.

    Example:
        >>> import oplib
        >>> oplib.LongTensor([1, 2]), isinstance(oplib.ones(1), oplib.FloatTensor)
        (tensor([1, 2]), True)
    """

    _dtype: np.dtype[Any] | None

    @property
    def dtype(cls) -> np.dtype[Any]:
        """The dtype; that of ``LongTensor`` is the default integer dtype, which follows JAX's x64."""
        return default_int_dtype() if cls._dtype is None else cls._dtype

    @entry_point
    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        """Makes a tensor, see :class:`~oplib.Tensor`.

        Raises:
            DataTypeError: an argument has another type, or is a Tensor of another dtype.
            DtypeError: the dtype is not available.
        """
        made = construct(cls.__name__, args, normalize_dtype(cls.dtype), find_placement(device))
        if not isinstance(made, Tensor):
            return Tensor.from_array(made)
        if made.dtype != cls.dtype:
            raise DataTypeError(
                f"{cls.__name__}: the Tensor has another dtype. Got {describe(made)}. Convert it: "
                f"tensor.type(oplib.{cls.__name__})."
            )
        return made.view(made.shape)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype


def _make(word: str, dtype: Any) -> TensorType:
    doc = f"The Tensors of dtype {word.lower() if dtype is None else dtype}, see :class:`TensorType`."
    return TensorType(f"{word}Tensor", (), {"_dtype": dtype, "__doc__": doc, "__module__": "oplib"})


BoolTensor = _make("Bool", dtypes.bool)
ByteTensor = _make("Byte", dtypes.uint8)
CharTensor = _make("Char", dtypes.int8)
ShortTensor = _make("Short", dtypes.int16)
IntTensor = _make("Int", dtypes.int32)
LongTensor = _make("Long", None)
HalfTensor = _make("Half", dtypes.float16)
BFloat16Tensor = _make("BFloat16", dtypes.bfloat16)
FloatTensor = _make("Float", dtypes.float32)
DoubleTensor = _make("Double", dtypes.float64)
