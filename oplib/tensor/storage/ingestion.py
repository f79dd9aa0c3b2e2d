"""Conversion of data of any kind to a ``jax.Array`` that no other code can write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import AutogradError, DataError, DtypeError, TracingError, describe
from oplib.tensor.devices.forked import check_process
from oplib.tensor.devices.placement import Placement
from oplib.tensor.dtypes.promotion import promote_types
from oplib.tensor.dtypes.rules import (
    COMPLEX,
    INTEGRAL,
    check_range,
    dtype_of_numpy,
    holds_numbers,
    normalize_dtype,
    saturate,
    scalar_dtype,
)

from .failed_reads import forget_read
from .known import note_computation, run_noted
from .metadata import TensorMetadata

_DLPACK_CPU = 1
_NUMBERS = {bool, int, float, complex}


def to_array(data: Any, dtype: np.dtype[Any] | None, placement: Placement) -> jax.Array:
    """Returns a strongly typed ``jax.Array`` of the data. Memory that other code can write is copied.

    Args:
        data: a Tensor, a jax.Array or tracer, a numpy array or scalar, an object with ``__dlpack__`` or
            ``__array__``, a number, or nested sequences of these.
        dtype: the dtype of the result; None for the default rules, see ``tensor/dtypes/rules.py``.
        placement: the placement of the array, or None for JAX's default.

    Raises:
        DtypeError: the dtype would lose values, or the data has no dtype that tensors have.
        DataError: sequences have unequal lengths, or the data has another type.
    """
    check_process()
    if isinstance(data, TensorMetadata):
        boxed: Any = data
        data = boxed.array
    if isinstance(data, jax.Array):
        return _from_jax(data, dtype, placement)
    if isinstance(data, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(data), dtype, placement)
    if hasattr(data, "__dlpack__"):
        return _from_dlpack(data, dtype, placement)
    if hasattr(data, "__array__"):
        return _from_numpy(np.asarray(data), dtype, placement)
    return _from_python(data, dtype, placement)


def _from_jax(array: jax.Array, dtype: np.dtype[Any] | None, placement: Placement) -> jax.Array:
    if dtype is not None or array.weak_type:
        target = array.dtype if dtype is None else dtype
        convert = jax.lax.convert_element_type
        (array,) = run_noted(lambda source: (convert(saturate(source, target), target),), array)
    if placement is not None:
        (array,) = run_noted(lambda source: (jax.device_put(source, placement),), array)
    return array


def _from_numpy(array: np.ndarray[Any, Any], dtype: np.dtype[Any] | None, placement: Placement) -> jax.Array:
    if dtype is None:
        dtype = dtype_of_numpy(array)
    elif not holds_numbers(array.dtype):
        raise DtypeError(
            f"dtype: an array of {array.dtype} holds no numbers. Got shape {array.shape}. Convert it first."
        )
    return _put(array, dtype, placement)


def _put(array: np.ndarray[Any, Any], dtype: np.dtype[Any], placement: Placement) -> jax.Array:
    """JAX keeps or reads the memory of a numpy array after it has returned, so it receives a copy."""
    if array.dtype in COMPLEX and dtype not in COMPLEX:
        raise DtypeError(
            f"dtype: {dtype.name} cannot hold complex numbers. Got {describe(array)}. "
            f"Take the real part first, or choose a complex dtype."
        )
    copied = saturate(array, dtype).astype(dtype, order="C", copy=True)
    (made,) = adopt_arrays([copied], placement)
    return made


def adopt_arrays(arrays: list[np.ndarray[Any, Any]], placement: Placement) -> list[jax.Array]:
    """Returns a ``jax.Array`` of each numpy array, and may take its memory: no other code holds it."""
    check_process()
    made = jax.device_put(arrays, placement)  # jnp.asarray compiles a copy for each shape
    note_computation(made, lambda: arrays)
    return made


def _from_dlpack(data: Any, dtype: np.dtype[Any] | None, placement: Placement) -> jax.Array:
    shared = _view_by_numpy(data)
    if shared is not None:
        return _from_numpy(shared, dtype, placement)
    copied = jnp.array(jax.dlpack.from_dlpack(data), copy=True)
    copied.block_until_ready()  # before the owner of the memory can write it again
    return _from_jax(copied, normalize_dtype(copied.dtype if dtype is None else dtype), placement)


def _view_by_numpy(data: Any) -> np.ndarray[Any, Any] | None:
    """Returns a numpy view of the data; None for other devices and bfloat16, which numpy does not support."""
    if data.__dlpack_device__()[0] != _DLPACK_CPU:
        return None
    try:
        return np.from_dlpack(data)
    except (BufferError, RuntimeError, TypeError):
        return None


def _from_python(data: Any, dtype: np.dtype[Any] | None, placement: Placement) -> jax.Array:
    try:
        array = _read_sequence(data)
    except (TracingError, jax.errors.TracerArrayConversionError) as error:
        forget_read(error)
        stacked = _stack(data)
        return _from_jax(stacked, stacked.dtype if dtype is None else dtype, placement)
    if dtype is None:
        dtype = _infer_dtype(array, data)
    elif array.dtype.kind in "iu" and dtype in INTEGRAL:
        check_range(array, dtype)
    return _put(array, dtype, placement)


def _read_sequence(data: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.array(data)
    except TypeError:  # numpy knows no bfloat16 in objects
        array = np.array(data, object)
    except ValueError:
        raise DataError(
            f"tensor: nested sequences must have equal lengths at each depth. Got {describe(data)}. "
            f"Pad them, or keep a list of tensors."
        ) from None
    except AutogradError:
        raise AutogradError(
            "tensor: the data holds a Tensor that requires grad, whose history would be lost. "
            f"Got {describe(data)}. Use oplib.stack to keep it, or detach the Tensor."
        ) from None
    if array.dtype == object:
        array = _read_objects(array, data)
    if not holds_numbers(array.dtype):
        raise DtypeError(
            f"tensor: the data is not made of numbers that fit a dtype. Got {describe(data)}. "
            f"Give numbers, bools, arrays, or nested sequences of these."
        )
    return array


def _read_objects(array: np.ndarray[Any, Any], data: Any) -> np.ndarray[Any, Any]:
    """Returns numbers beside others that numpy has no common dtype for, such as those of bfloat16."""
    try:
        common = _promote_items(data)
        numbers = [item.item() if hasattr(item, "item") else item for item in array.flat]
        return np.array(numbers).reshape(array.shape).astype(common) if common.kind not in "iu" else array
    except (DtypeError, TypeError, ValueError):
        return array


def _infer_dtype(array: np.ndarray[Any, Any], data: Any) -> np.dtype[Any]:
    """Returns the common dtype of all numbers and arrays in the data, by torch's rules of promotion.

    Python's numbers have torch's default dtypes. numpy's arrays and numbers have their own.
    """
    common = _promote_items(data)
    if array.dtype.kind in "iu" and common in INTEGRAL:
        check_range(array, common)
    return dtype_of_numpy(array.astype(common, copy=False))


def _promote_items(data: Any) -> np.dtype[Any]:
    found: dict[Any, None] = {}
    _collect_dtypes([data], found)
    own = [scalar_dtype(item) if isinstance(item, type) else item for item in found]
    return reduce(promote_types, own) if own else scalar_dtype(float)


def _collect_dtypes(items: Sequence[Any], found: dict[Any, None]) -> None:
    """Adds the dtype of each array, and the type of each number of Python, in nested sequences."""
    kinds = set(map(type, items))
    if kinds <= _NUMBERS:
        if not kinds <= found.keys():
            found.update(dict.fromkeys(sorted(kinds, key=str)))
        return
    for item in items:
        if isinstance(item, (list, tuple)):
            _collect_dtypes(item, found)
        elif isinstance(getattr(item, "dtype", None), np.dtype):
            found[item.dtype] = None
        elif isinstance(item, (int, float, complex)):
            found[type(item)] = None
        else:
            own = np.asarray(item).dtype
            if not holds_numbers(own):
                raise TypeError
            is_array = hasattr(item, "__array__") or hasattr(item, "__dlpack__")
            found[own if is_array else type(own.type().item())] = None


def _stack(data: Any) -> jax.Array:
    """Stacks nested sequences axis by axis. numpy cannot read traced values."""
    if not isinstance(data, (list, tuple)):
        return to_array(data, None, None)
    parts = list(map(_stack, data))
    if len({part.shape for part in parts}) > 1:
        raise DataError(
            f"tensor: items of a sequence must have one shape. Got {describe(parts)}. "
            f"Pad them, or keep a list of tensors."
        )
    common = parts[0].dtype
    for part in parts:
        common = promote_types(common, part.dtype)
    return jnp.stack([jax.lax.convert_element_type(part, common) for part in parts])
