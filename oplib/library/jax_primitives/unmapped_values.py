"""Access to the values outside of a map: arrays of all examples, or values that are not mapped.

JAX passes these values only to the batching rule of a primitive, so this module binds a primitive to get
them. It belongs to the carrier because no other module may use ``jax.interpreters``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jax.extend.core import Primitive
from jax.interpreters import batching

from oplib.library.batching_and_sharding.levels import move_to_front

_primitive = Primitive("call_unmapped")
_primitive.multiple_results = True


class UnmappedValue(NamedTuple):
    """A value as it is outside of the innermost map.

    Attributes:
        array: the value, with the axis of the map in front if it has one.
        is_batched: whether it has the axis of the map.
    """

    array: Any
    is_batched: bool


def call_unmapped(
    index: Any, values: Sequence[Any], function: Callable[[list[UnmappedValue]], Sequence[Any]]
) -> list[Any]:
    """Calls a function outside of the current map, with all examples at once.

    Args:
        index: a value that the current map has batched; without one, JAX would use an outer map.
        values: arrays or tracers.
        function: takes the outside values, and returns arrays with the axis of the map in front.

    Returns:
        For each of these arrays its value inside of the map: a tracer of one example.
    """
    return _primitive.bind(index, *values, function=function)[1:]


def read_unmapped(index: Any, values: Sequence[Any]) -> list[UnmappedValue]:
    """Returns the values outside of the current map; the arguments are those of :func:`call_unmapped`."""
    seen: list[UnmappedValue] = []

    def note(unmapped: list[UnmappedValue]) -> Sequence[Any]:
        seen.extend(unmapped)
        return ()

    call_unmapped(index, values, note)
    return seen


def _answer(
    _axis: Any, args: Any, dims: Any, *, function: Callable[[list[UnmappedValue]], Sequence[Any]]
) -> tuple[list[Any], list[int]]:
    pairs = zip(args[1:], dims[1:], strict=True)
    results = function([UnmappedValue(move_to_front(value, dim), dim is not None) for value, dim in pairs])
    return [args[0], *results], [dims[0], *([0] * len(results))]


batching.fancy_primitive_batchers[_primitive] = _answer
