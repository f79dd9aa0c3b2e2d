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
_jax_config: Any = jax.config  # its attributes are made at run time


class ScalarCache:
    """Numbers of one type, for one setting of ``jax_enable_x64``."""

    __slots__ = ("_seen", "arrays")

    def __init__(self) -> None:
        self.arrays: dict[Any, Any] = {}
        self._seen: set[Any] = set()

    def remember(self, number: Any) -> Any:
        """Returns what to pass for a number that is not cached, and caches it if it was seen before."""
        if number == 0 or number != number:  # 0.0 and -0.0 are one key, and no nan equals itself
            return number
        if number not in self._seen:
            if len(self._seen) >= CAPACITY:
                self._seen.clear()
            self._seen.add(number)
            return number
        array = jnp.asarray(number)
        if isinstance(array, Tracer) or array.committed:  # to the devices of a mesh that is set now
            return number
        if len(self.arrays) >= CAPACITY:
            self.arrays.clear()
        self.arrays[number] = array
        return array


_caches: dict[tuple[type, bool], ScalarCache] = {
    (kind, x64): ScalarCache() for kind in (float, int, complex) for x64 in (False, True)
}


def to_operand(number: Any) -> Any:
    """Returns what a compiled call gets for a Python number: a weak scalar array, or the number itself."""
    cache = _caches.get((number.__class__, _jax_config.jax_enable_x64))
    if cache is None:
        return number
    array = cache.arrays.get(number)
    return cache.remember(number) if array is None else array
