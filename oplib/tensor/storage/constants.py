"""Arrays of one repeated value, which all Tensors with the same items share.

Arrays are immutable, so ``zeros(8, 8)`` needs no array of its own: a write replaces the array of a Tensor.
Two things can still destroy an array: donation, and a library that writes through DLPack. So ``tensor.array``
copies a shared array first (``own_array``). The fast path reads the storage, and does not copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
from jax.core import Tracer

from oplib.tensor.devices.device import jax_config

from .tensor_slots import TensorSlots

_LARGEST = 2**12  # items; making a larger array costs more than a call
_MOST = 512

_arrays: dict[Hashable, jax.Array] = {}
_shared: WeakValueDictionary[int, jax.Array] = WeakValueDictionary()


def share_array(key: Hashable, make: Callable[[], jax.Array]) -> jax.Array:
    """Returns the shared array with this key. If there is none, an array is made, and shared if it is small.

    Args:
        key: all that the array depends on, but for JAX's default device.
        make: makes the array.
    """
    key = (key, jax_config.jax_default_device)  # a context manager of the caller may have changed it
    found = _arrays.get(key)
    if found is not None:
        return found
    array = make()
    if is_shareable(array):
        if len(_arrays) >= _MOST:
            _arrays.clear()  # the Tensors that use them keep them
        _shared[id(array)] = array
        _arrays[key] = array
    return array


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
