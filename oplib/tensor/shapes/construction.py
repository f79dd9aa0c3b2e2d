"""Torch's oldest constructor: sizes, data, or another tensor, told apart by their classes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from oplib.errors import DataTypeError, describe
from oplib.protocols import Values
from oplib.tensor.devices.placement import Placement
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.metadata import TensorMetadata
from oplib.tensor.storage.size import Size

from .filling import fill, read_size


def construct(op: str, args: Values, dtype: np.dtype[Any], placement: Placement) -> Any:
    """Returns the array of ``Tensor(2, 3)``, ``Tensor(Size([2, 3]))`` and ``Tensor(data)``.

    Args:
        op: the name of the constructor, for errors.
        args: its arguments: sizes or a Size, for a tensor without defined values (none make an empty one); or
            one sequence or array of data; or one Tensor.
        dtype: of the array.
        placement: of the array, or None for JAX's choice.

    Returns:
        A new array; the Tensor itself, if one is given.

    Raises:
        DataTypeError: a single argument has another type.
        ArgumentError: a size is negative.
        DtypeError: the dtype cannot hold the data.
    """
    (data,) = args if len(args) == 1 else (None,)
    if isinstance(data, TensorMetadata):
        return data
    if isinstance(data, (list, tuple, range, np.ndarray, jax.Array)) and not isinstance(data, Size):
        return to_array(data, dtype, placement)
    if not isinstance(data, Size) and not all(isinstance(arg, int) and arg is not True for arg in args):
        raise DataTypeError(
            f"{op}: data must be a sequence, and sizes integers. Got {', '.join(map(describe, args))}. Give "
            "sizes or a list, or use oplib.tensor."
        )
    return fill(read_size(op, args or (0,)), 0, dtype, placement)
