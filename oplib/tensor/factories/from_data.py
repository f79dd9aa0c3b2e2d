"""Tensors from data. External data is copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.errors import ArgumentValueError, DataTypeError, describe
from oplib.tensor.devices.placement import find_placement
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.tensor import Tensor
from oplib.tracebacks import entry_point, refine_error, warn_user


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Makes a leaf from a copy of the data.

    Args:
        data: a number, nested sequences of numbers, a numpy array, a ``jax.Array`` or tracer, or an object
            with ``__dlpack__`` or ``__array__``, such as a torch tensor; any shape.
        dtype: by default the dtype of an array. For Python numbers it is bool, int64 (int32 without JAX's
            x64), the default dtype, or its complex counterpart.
        device: a Device or its spelling, a ``jax.Device`` or a ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        DtypeError: the dtype would silently lose values, such as that of a float64 numpy array without x64.
        DataError: sequences have unequal lengths, or the data has another type.
        DeviceError: the device does not exist.
        AutogradError: ``requires_grad`` is set for a dtype that has no gradient.

    Gradient:
        None flows to the data. Use ``tensor.clone()`` for a copy with history.

    Example:
        >>> tensor([[1, 2.5], [3, 4]])
        tensor([[1.0000, 2.5000],
                [3.0000, 4.0000]])
        >>> tensor(True)
        tensor(True)
    """
    if isinstance(data, Tensor):
        warn_user(
            "tensor: the data is a Tensor, and its history is not copied. "
            "Write source.detach().clone() for a copy, with .requires_grad_(True) for a new leaf.",
            UserWarning,
        )
    try:
        return _box_data(data, dtype, device, requires_grad)
    except Exception as error:
        if better := refine_error(error):
            raise better from error
        raise


def _box_data(data: Any, dtype: Any, device: Any, requires_grad: bool = False) -> Tensor:
    array = to_array(data, None if dtype is None else normalize_dtype(dtype), find_placement(device))
    return Tensor.from_array(array, requires_grad=requires_grad)


@entry_point
def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns data as a Tensor. A Tensor is returned itself, or converted with its history.

    Args:
        data: as for :func:`tensor`.
        dtype: the dtype of the result; by default as for :func:`tensor`.
        device: the device of the result; by default that of the data, or JAX's choice.

    Returns:
        The Tensor itself if nothing has to change, else a new one.

    Raises:
        DtypeError: as for :func:`tensor`.
        DataError: as for :func:`tensor`.
        DeviceError: the device does not exist.

    Gradient:
        The gradient of ``Tensor.to`` if the data is a Tensor.

    Example:
        >>> x = tensor([1.0, 2.0])
        >>> as_tensor(x) is x
        True
    """
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return _box_data(data, dtype, device)


@entry_point
def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """Makes a Tensor from a copy of a numpy array.

    Unlike in torch the result shares no memory with the array, because the array of a Tensor never changes.

    Args:
        array: any shape, with a dtype that tensors have.

    Raises:
        DataTypeError: the argument is not a numpy array.
        DtypeError: the dtype would lose values, or tensors do not have it.

    Example:
        >>> from_numpy(np.array([1, 2], np.int16))
        tensor([1, 2], dtype=oplib.int16)
    """
    if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise DataTypeError(
            f"from_numpy: 'array' is not a numpy array. Got {type(array).__name__}. Use oplib.tensor(data)."
        )
    return _box_data(array, None, None)


@entry_point
def from_dlpack(data: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Makes a Tensor from a copy of an array of another library.

    Args:
        data: an object with ``__dlpack__`` and ``__dlpack_device__``.
        device: the device of the copy; by default JAX's choice.
        copy: the result is a copy, so False is refused.

    Raises:
        ArgumentValueError: ``copy`` is False.
        DataTypeError: the object does not support dlpack.
        DtypeError: the dtype would lose values.

    Example:
        >>> from_dlpack(np.arange(3.0, dtype=np.float32))
        tensor([0., 1., 2.])
    """
    if copy is False:
        raise ArgumentValueError(
            f"from_dlpack: a Tensor never shares memory that other code can write. Got {describe(data)} and "
            "copy=False. Leave it out."
        )
    if not (hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__")):
        raise DataTypeError(
            f"from_dlpack: 'data' has no __dlpack__. Got {type(data).__name__}. Use oplib.tensor(data)."
        )
    return _box_data(data, None, device)
