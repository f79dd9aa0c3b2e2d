"""Arrays of one repeated value, which all Tensors with the same items share.

Arrays are immutable, so ``zeros(8, 8)`` needs no array of its own: a write replaces the array of a Tensor.
The gradient of a scalar result is such an array, and what reductions make of it.
Two things can still destroy an array: donation, and a library that writes through DLPack. So ``tensor.array``
copies a shared array first (``own_array``). The fast path reads the storage, and does not copy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
from jax.core import Tracer

from .tensor_slots import TensorSlots

_LARGEST = 2**12  # items; making a larger array costs more than a call
_MOST = 512

shared_arrays: dict[Hashable, jax.Array] = {}
_shared: WeakValueDictionary[int, jax.Array] = WeakValueDictionary()


def share_array(key: Hashable, array: jax.Array) -> jax.Array:
    """Puts a new array among the shared ones if it is small, and returns it.

    Args:
        key: all that the array depends on.
        array: the array, which nothing else holds.
    """
    if is_shareable(array):
        if len(shared_arrays) >= _MOST:
            shared_arrays.clear()  # the Tensors that use them keep them
        mark_shared(array)
        shared_arrays[key] = array
    return array


def mark_shared(array: jax.Array) -> None:
    """Notes that several Tensors may hold an array."""
    _shared[id(array)] = array


def is_shared(array: Any) -> bool:
    """Returns whether an array is one that several Tensors may hold."""
    return id(array) in _shared


def is_shareable(array: Any) -> bool:
    """Returns whether an array has values, and is so small that making it costs more than finding it."""
    return not isinstance(array, Tracer) and array.size <= _LARGEST


def own_array(tensor: TensorSlots) -> Any:
    """Returns the array of a Tensor for code that may donate it or write into it: never a shared one."""
    storage = tensor._storage
    array: Any = storage.array
    if id(array) in _shared:
        seen = array
        with jax.ensure_compile_time_eval():  # in a trace the copy would be a value of the trace
            array = jnp.copy(array)
        storage.owner.exchange(seen, array, counted=False)
    return array
