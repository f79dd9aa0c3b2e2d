"""Python numbers as operands: a bounded cache of weakly typed scalar arrays.

A Python number costs a jitted call about 4 µs, an existing array about 1 µs, and the creation of an array 24
µs. So a number is passed as it is at its first use, and as a cached array from the second use on.
"""

from __future__ import annotations

from typing import Any

import jax

from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.overlay import overlays

CAPACITY = 1024
x64: Any = jax.enable_x64  # its ``value`` is read in a third of the time of ``jax.config``


class ScalarCache:
    """The cached numbers of one type, for one setting of ``jax_enable_x64``.

    Attributes:
        arrays: by number; a floating zero and a complex number have their text as key: 0.0 equals -0.0.
    """

    __slots__ = ("_seen", "arrays")

    def __init__(self) -> None:
        self.arrays: dict[Any, Any] = {}
        self._seen: set[Any] = set()

    def find(self, number: Any) -> Any:
        """Returns the value to pass for a number: a cached array if the number was used before."""
        has_zero = number.__class__ is not int and not (
            number.real and (number.imag or number.__class__ is float)
        )
        key = str(number) if has_zero else number
        array = self.arrays.get(key)
        if array is not None or number != number:  # a nan does not equal itself
            return number if array is None else array
        if key not in self._seen:
            if len(self._seen) >= CAPACITY:
                self._seen.clear()
            self._seen.add(key)
            return number
        if is_inside_trace():
            return number
        array = jax.device_put(number)  # weakly typed too; jnp.asarray would compile a function
        if array.committed:  # to the devices of the current mesh
            return number
        if len(self.arrays) >= CAPACITY:
            self.arrays.clear()
        self.arrays[key] = array
        return array


_caches = {wide: {kind: ScalarCache() for kind in (float, int, complex)} for wide in (False, True)}
ARRAYS = {wide: {kind: cache.arrays for kind, cache in caches.items()} for wide, caches in _caches.items()}
"""The cached arrays by ``x64.value``, class and number."""


def to_operand(number: Any) -> Any:
    """Returns the value that a compiled call gets for a Python number: a weak scalar array, or the number.

    Returns None for an integer that JAX's widest dtype does not hold; the caller must handle it. A program of
    ``oplib.jit`` gets the number: its text does not depend on which numbers were used before.
    """
    if number.__class__ is int and not is_narrow(number):
        return None
    if overlays.current is not None:
        return number
    cache = _caches[x64.value].get(number.__class__)
    return number if cache is None else cache.find(number)


def is_narrow(number: int) -> bool:
    """Tells whether the widest integers that are available now hold a number."""
    limit = 1 << (63 if x64.value else 31)
    return -limit <= number < limit
