"""Known values: those of traced arrays that are computed from numbers of Python only.

While a function is traced, the overlay notes of each array that is made of numbers, or computed from such
arrays, how it is computed. Nothing is computed before a value is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

import jax
from jax.core import Tracer

from .overlay import overlays

_MOST_ITEMS = 4096


class Computation:
    """How some arrays are computed.

    Attributes:
        function: computes them.
        structure: of the operands: a tree of JAX.
        operands: arrays with values, and for the others their computation and the place among its results.
        results: the arrays with values, once they were asked for.
    """

    __slots__ = ("function", "operands", "results", "structure")

    def __init__(self, function: Callable[..., Sequence[Any]], operands: list[Any], structure: Any) -> None:
        self.function = function
        self.operands = operands
        self.structure = structure
        self.results: Sequence[Any] | None = None

    def list_missing(self) -> list[Computation]:
        """Returns the computations of operands that were not computed yet."""
        return [one[0] for one in self.operands if one.__class__ is tuple and one[0].results is None]

    def compute(self) -> None:
        """Computes the results, when those of all operands are there."""
        values = [one[0].results[one[1]] if one.__class__ is tuple else one for one in self.operands]
        self.results = self.function(*jax.tree_util.tree_unflatten(self.structure, values))
        self.operands = []


def note_computation(results: Sequence[Any], function: Callable[..., Sequence[Any]], *operands: Any) -> None:
    """Notes how traced arrays are computed, if all operands are known and no array is large.

    Args:
        results: the arrays.
        function: returns them for the operands, as arrays with values.
        *operands: trees of arrays.
    """
    overlay = overlays.current
    if overlay is None or any(getattr(one, "size", 0) > _MOST_ITEMS for one in results):
        return
    leaves, structure = jax.tree_util.tree_flatten(operands)
    known = [overlay.computations.get(id(one)) if isinstance(one, Tracer) else (None, one) for one in leaves]
    if None in known:
        return
    given = [one[1] if one[0] is None else one[1:] for one in known if one is not None]
    computation, noted = Computation(function, given, structure), overlay.computations
    for place, array in enumerate(results):
        if isinstance(array, Tracer):
            number = id(array)
            noted[number] = ref(array, partial(_forget, noted, number)), computation, place


def _forget(noted: dict[int, Any], number: int, _: Any) -> None:
    noted.pop(number, None)


def run_noted(function: Callable[..., Sequence[Any]], *operands: Any) -> Sequence[Any]:
    """Runs a function of arrays, and notes it as the computation of its results."""
    results = function(*operands)
    note_computation(results, function, *operands)
    return results


def find_value(array: Any) -> Any:
    """Returns an array with values for one that may be traced; None if its values are not known."""
    if not isinstance(array, Tracer):
        return array
    overlay = overlays.current
    found = None if overlay is None else overlay.computations.get(id(array))
    if found is None:
        return None
    _, computation, place = found
    ahead: list[Computation] = [computation]
    with jax.ensure_compile_time_eval():
        while ahead:
            missing = [] if ahead[-1].results is not None else ahead[-1].list_missing()
            if missing:
                ahead += missing
            else:
                last = ahead.pop()
                if last.results is None:
                    last.compute()
    return computation.results[place]
