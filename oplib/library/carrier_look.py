"""What stands behind the values inside of a map: arrays of all examples, or values that are not mapped.

JAX hands these to the batching rule of a primitive and to nobody else, so that is what asks. It stands beside
the carrier because nothing else may touch ``jax.interpreters``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax.extend.core import Primitive
from jax.interpreters import batching

from .levels import move_to_front

_look = Primitive("look_below")
_look.multiple_results = True


class Below(NamedTuple):
    """A value as it is outside of the innermost map.

    Attributes:
        array: with the axis of the map in front, if it has it.
        is_batched: whether it has.
    """

    array: Any
    is_batched: bool


def look_below(index: Any, values: Sequence[Any]) -> list[Below]:
    """Returns what values are outside of the map whose function is running.

    Args:
        index: a value that this map has batched: without one, JAX would ask an outer map.
        values: arrays or tracers.
    """
    seen: list[Below] = []
    _look.bind(index, *values, seen=seen)
    return seen


def _answer(_axis: Any, args: Any, dims: Any, *, seen: list[Below]) -> tuple[list[Any], list[Any]]:
    pairs = zip(args[1:], dims[1:], strict=True)
    seen.extend(Below(move_to_front(value, dim), dim is not None) for value, dim in pairs)
    return [args[0]], [dims[0]]


batching.fancy_primitive_batchers[_look] = _answer
