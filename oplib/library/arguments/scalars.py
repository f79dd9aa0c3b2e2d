"""Python numbers as operands: a bounded cache of weakly typed scalar arrays.

A Python number costs a jitted call about 4 µs, an array made before about 1 µs, and making one 24 µs. So a
number is passed as it is when it is first seen, and as a cached array from the second time on.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

CAPACITY = 1024
x64: Any = jax.enable_x64  # what ``with`` sets: asking it costs a third of asking ``jax.config``


class ScalarCache:
    """Numbers of one type, for one setting of ``jax_enable_x64``.

    Attributes:
        arrays: by number; a floating or complex zero stands under its text, since 0.0 and -0.0 are one key.
    """

    __slots__ = ("_seen", "arrays")

    def __init__(self) -> None:
        self.arrays: dict[Any, Any] = {}
        self._seen: set[Any] = set()

    def find(self, number: Any) -> Any:
        """Returns what to pass for a number; it is cached if it was seen before."""
        key = str(number) if number == 0 and number.__class__ is not int else number
        array = self.arrays.get(key)
        if array is not None or number != number:  # no nan equals itself
            return number if array is None else array
        if key not in self._seen:
            if len(self._seen) >= CAPACITY:
                self._seen.clear()
            self._seen.add(key)
            return number
        array = jnp.asarray(number)
        if isinstance(array, Tracer) or array.committed:  # to the devices of a mesh that is set now
            return number
        if len(self.arrays) >= CAPACITY:
            self.arrays.clear()
        self.arrays[key] = array
        return array


_caches = {wide: {kind: ScalarCache() for kind in (float, int, complex)} for wide in (False, True)}
ARRAYS = {wide: {kind: cache.arrays for kind, cache in caches.items()} for wide, caches in _caches.items()}
"""What is cached, by ``x64.value``, class and number: for generated code, which looks here first."""


def to_operand(number: Any) -> Any:
    """Returns what a compiled call gets for a Python number: a weak scalar array, or the number itself.

    None stands for an integer that JAX's widest dtype does not hold: it has to be looked at.
    """
    if number.__class__ is int and not is_narrow(number):
        return None
    cache = _caches[x64.value].get(number.__class__)
    return number if cache is None else cache.find(number)


def is_narrow(number: int) -> bool:
    """Tells whether the widest integers that can be had now hold a number."""
    limit = 1 << (63 if x64.value else 31)
    return -limit <= number < limit
