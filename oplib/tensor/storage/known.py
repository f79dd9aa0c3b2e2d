"""Known values: those of traced arrays that are computed from numbers of Python only.

While a function is traced, the overlay holds a computation for each array that comes from such numbers. The
computation runs when a value is asked for.
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
    """A function and its operands, from which some arrays are computed when a value is asked for.

    Attributes:
        function: takes the operands, and returns the arrays.
        structure: of the operands: a tree of JAX.
        operands: the leaves of the tree: arrays with values, and a :class:`Result` for each of the others.
        results: the arrays with values; None before they are computed.
    """

    __slots__ = ("function", "operands", "results", "structure")

    def __init__(self, function: Callable[..., Sequence[Any]], operands: list[Any], structure: Any) -> None:
        self.function = function
        self.operands = operands
        self.structure = structure
        self.results: Sequence[Any] | None = None

    def list_missing(self) -> list[Computation]:
        """Returns the computations of operands that have not run."""
        sources = [operand.computation for operand in self.operands if isinstance(operand, Result)]
        return [source for source in sources if source.results is None]

    def compute(self) -> None:
        """Computes the results, after the computations of all operands have run."""
        values = [operand.read() if isinstance(operand, Result) else operand for operand in self.operands]
        self.results = self.function(*jax.tree_util.tree_unflatten(self.structure, values))
        self.operands = []


class Result:
    """One result of a computation.

    Attributes:
        computation: returns the result.
        index: of the result among those of the computation.
    """

    __slots__ = ("computation", "index")

    def __init__(self, computation: Computation, index: int) -> None:
        self.computation = computation
        self.index = index

    def read(self) -> Any:
        """Returns the array with values, after its computation has run."""
        assert self.computation.results is not None
        return self.computation.results[self.index]


def note_computation(results: Sequence[Any], function: Callable[..., Sequence[Any]], *operands: Any) -> None:
    """Notes how traced arrays are computed, if all operands are known and no array is large.

    Args:
        results: the arrays.
        function: returns them for the operands, as arrays with values.
        *operands: trees of arrays.
    """
    overlay = overlays.current
    if overlay is None or any(getattr(array, "size", 0) > _MOST_ITEMS for array in results):
        return
    computations = overlay.computations
    leaves, structure = jax.tree_util.tree_flatten(operands)
    known: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tracer):
            if id(leaf) not in computations:
                return
            leaf = computations[id(leaf)][1]
        known.append(leaf)
    computation = Computation(function, known, structure)
    for index, array in enumerate(results):
        if isinstance(array, Tracer):
            key = id(array)
            reference = ref(array, partial(_forget, computations, key))
            computations[key] = reference, Result(computation, index)


def _forget(computations: dict[int, Any], key: int, _: Any) -> None:
    computations.pop(key, None)


def run_noted(function: Callable[..., Sequence[Any]], *operands: Any) -> Sequence[Any]:
    """Runs a function of arrays, and notes it as the computation of its results.

    Args:
        function: returns arrays for the operands.
        *operands: trees of arrays.
    """
    results = function(*operands)
    note_computation(results, function, *operands)
    return results


def find_value(array: Any) -> Any:
    """Returns an array with values for one that may be traced; None if its values are not known."""
    if not isinstance(array, Tracer):
        return array
    overlay = overlays.current
    entry = None if overlay is None else overlay.computations.get(id(array))
    if entry is None:
        return None
    pending = [entry[1].computation]  # a list, since a recursion would end at a long chain of operands
    with jax.ensure_compile_time_eval():
        while pending:
            missing = pending[-1].list_missing()
            if missing:
                pending += missing
                continue
            last = pending.pop()
            if last.results is None:
                last.compute()
    return entry[1].read()
