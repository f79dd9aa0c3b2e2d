"""The array of a Tensor, and the values of a Tensor or array if they are known."""

from __future__ import annotations

import math
from typing import Any
from weakref import ref

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.errors import ArgumentTypeError, TracingError, describe
from oplib.library.arguments.recording import unbox
from oplib.modes import modes
from oplib.tensor import Tensor, default_int_dtype, read_array
from oplib.tensor.devices.layout import find_explicit_mesh
from oplib.tensor.storage.failed_reads import note_read
from oplib.tensor.storage.fresh import get_owner_array
from oplib.tensor.storage.known import find_value
from oplib.tensor.views import ViewStorage


def is_traced(value: Any) -> bool:
    """Tells whether the values of a Tensor or array are traced, and so not known yet."""
    return isinstance(unbox(value), Tracer)


# The latest traced index, the sizes for it, and the start that it gave: ``x[p] += 1`` looks twice.
_latest: tuple[Any, Any, Any] = (lambda: None, None, lambda: None)


def is_traced_index(value: Any) -> bool:
    """Tells whether a value is a traced whole number without dims."""
    array = unbox(value)
    return isinstance(array, Tracer) and not array.ndim and jnp.issubdtype(array.dtype, jnp.integer)


def can_move(whole: Tensor) -> bool:
    """Tells whether a window of a tensor may have a traced start: JAX does not write one on explicit axes."""
    owner = get_owner_array(whole._storage)  # a read would give up a fresh buffer
    return find_explicit_mesh([owner]) is None


def find_start(index: Any, length: int, size: int) -> Any:
    """Returns a traced start of a window as an operand; one that does not exist is clamped, as in JAX.

    Args:
        index: the start, negative ones from the end.
        length: of the dim.
        size: of the window.
    """
    global _latest  # noqa: PLW0603  see there
    array, key = unbox(index), (length, size)
    start = _latest[2]() if _latest[0]() is array and _latest[1] == key else None
    if start is None:
        at = array.astype(jnp.int32)
        start = jnp.clip(jnp.where(at < 0, at + length, at), 0, length - size)
        _latest = ref(array), key, ref(start)
    return start


def box_like(value: Any, numbers: Any, dtype: Any = None) -> Any:
    """Returns numbers in the form of ``value``: a Tensor on its device, or an array.

    Args:
        value: a Tensor or an array.
        numbers: the numbers.
        dtype: the dtype of the result; by default that of default ints.
    """
    kind = np.dtype(default_int_dtype() if dtype is None else dtype)
    if isinstance(value, Tensor):
        return value.new_tensor(np.asarray(numbers).astype(kind), dtype=kind)
    return jnp.asarray(numbers, kind)


def is_item(value: Any) -> bool:
    """Tells whether a value is a tensor, an array or a number of numpy without dims."""
    return getattr(value, "shape", None) == ()


def make_zeros(like: Any, shape: tuple[int, ...]) -> Any:
    """Returns zeros of the kind and the dtype of a tensor or array."""
    return like.new_zeros(shape) if isinstance(like, Tensor) else jnp.zeros(shape, like.dtype)


def read_known(value: Any) -> np.ndarray[Any, Any] | None:
    """Returns the values of a tensor or array; None if they are traced."""
    return None if is_traced(value) else np.asarray(unbox(value))


def read_values(op: str, value: Any) -> np.ndarray[Any, Any]:
    """Returns the values of a tensor or array.

    Raises:
        ArgumentTypeError: the value is neither.
        TracingError: the values are traced.
    """
    array = unbox(value)
    if not hasattr(array, "dtype"):
        raise ArgumentTypeError(f"{op}: it takes a Tensor. Got {describe(value)}. Use oplib.tensor(...).")
    values = find_value(array)
    if values is None:
        raise note_read(
            TracingError(
                f"{op}: it reads the values, which are not known under a trace. Got {describe(array)}. Call "
                "it outside of jit, or use where and a mask of fixed size."
            )
        )
    return np.asarray(values)


_UNSIGNED = {np.dtype(f"{kind}{size}"): np.dtype(f"u{size}") for kind in "iu" for size in (1, 2, 4, 8)}
_highest: dict[int, tuple[ref[Any], int]] = {}


def is_known_below(array: Any, length: int) -> bool:
    """Tells whether an array was read before and all its integers are places of an axis of this length."""
    held = _highest.get(id(array))
    return held is not None and held[1] < length and held[0]() is array


def are_indices(value: Any, length: int) -> bool:
    """Tells whether all integers of a tensor or array are known to be places of an axis of this length.

    A view shows items of its base. So a view need not be read if the places in its base are known.

    Args:
        value: a Tensor or array. Traced and empty ones, and those of other dtypes, are not known.
        length: the length of the axis.
    """
    if isinstance(value, Tensor):
        storage: Any = value._storage
        if storage.__class__ is ViewStorage and modes.region is None and storage.chain.is_strided:
            whole = storage.base.array
            shows_all = math.prod(storage.base.spec.shape) == storage.size
            if is_known_below(whole, length) or (shows_all and _is_read_below(whole, length)):
                return True
        value = read_array(value)
    return is_known_below(value, length) or _is_read_below(value, length)


def _is_read_below(array: Any, length: int) -> bool:
    is_readable = not isinstance(array, Tracer) and getattr(array, "dtype", None) in _UNSIGNED
    return is_readable and array.size > 0 and find_highest(array) < length


def find_highest(array: Any) -> int:
    """Returns the greatest of the integers of an array, where a negative one counts as ``2**64``.

    So one pass finds whether all are places. Arrays of JAX do not change, so each is read once.

    Args:
        array: an array of JAX or numpy with values and with items, of a dtype of integers.
    """
    held = _highest.get(id(array))
    if held is not None and held[0]() is array:
        return held[1]
    values = np.asarray(array)
    unsigned = _UNSIGNED[values.dtype]
    highest = int(np.maximum.reduce(values.view(unsigned), axis=None))
    if values.dtype.kind == "i" and highest >> (8 * unsigned.itemsize - 1):
        highest = 2**64
    if isinstance(array, jax.Array):
        key = id(array)
        _highest[key] = ref(array, lambda _: _highest.pop(key, None)), highest
    return highest
