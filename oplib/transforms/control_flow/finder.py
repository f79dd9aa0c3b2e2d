"""How a call finds the operands that the bodies of a program have captured."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.tensor import Storage, Tensor
from oplib.transforms.captures.candidates import Candidates
from oplib.transforms.captures.places import FoundObject, Walk
from oplib.transforms.captures.reader import Reader

from .body import Body, Captured
from .leaves import share

_Take = Callable[[Sequence[Any]], Tensor]


class OperandFinder:
    """Finds the operands of one program again.

    Args:
        places: of the Tensors and arrays that the bodies have captured.
        takes: give the operands, from the objects that are found in the places.
        candidates: what the functions could read.
    """

    def __init__(self, places: list[FoundObject], takes: Sequence[_Take], candidates: Candidates) -> None:
        self._takes = takes
        self._read = Reader("control flow", places, (), candidates).read
        self._expected = _describe([place.value for place in places])

    def find(self, functions: Sequence[Callable[..., Any]]) -> list[Tensor] | None:
        """Returns the operands of a call with these functions; None if the program does not serve it."""
        found = self._read(functions, ())
        if found is None or _describe(found) != self._expected:
            return None
        return [take(found) for take in self._takes]


def make_finder(bodies: Sequence[Body], walk: Walk, candidates: Candidates) -> OperandFinder | None:
    """Returns what finds the operands of a program again; None if nothing leads to one of them.

    Args:
        bodies: of the program.
        walk: what its functions led to before they were traced.
        candidates: likewise.
    """
    sources = _Sources(walk)
    takes: list[_Take | None] = []
    for body in bodies:
        takes += [sources.find(captured) for captured in body.captured]
        takes += [sources.find_constant(array) for array in body.constants]
    known = [take for take in takes if take is not None]
    return OperandFinder(sources.places, known, candidates) if len(known) == len(takes) else None


class _Sources:
    """Finds what bodies have captured in what their functions led to.

    Attributes:
        places: of what was found.
    """

    def __init__(self, walk: Walk) -> None:
        self.places: list[FoundObject] = []
        self._walk = walk
        storages = ((place.value._storage, place) for place in walk.tensors.values())
        self._storages = {id(storage): place for storage, place in storages if storage.owner is storage}

    def find(self, captured: Captured) -> _Take | None:
        if captured.owner is not None:
            number = self._number(self._walk.tensors.get(id(captured.owner)))
            return None if number is None else lambda found: found[number]
        number = self._number(self._storages.get(id(captured.storage.owner)))
        return None if number is None else lambda found: share(found[number]._storage)

    def find_constant(self, array: Any) -> _Take:
        number = self._number(self._walk.arrays.get(id(array)))
        if number is None:
            kept = share(Storage(array))
            return lambda _: kept
        return lambda found: share(Storage(found[number]))

    def _number(self, place: FoundObject | None) -> int | None:
        if place is None:
            return None
        if place not in self.places:
            self.places.append(place)
        return self.places.index(place)


def _describe(found: Sequence[Any]) -> list[Hashable] | None:
    """What a program is compiled for of Tensors and arrays; None where one of them is traced."""
    described: list[Hashable] = []
    owners: dict[int, int] = {}  # Tensors that share memory have one number
    for one in found:
        array = one
        if isinstance(one, Tensor):
            shared = owners.setdefault(id(one._storage.owner), len(owners))
            array = one._storage.array  # a view is read here, outside of the trace
            described += [type(one), one._requires_grad, shared]
        if isinstance(array, Tracer) or not isinstance(array, jax.Array):
            return None
        described.append(jax.typeof(array))
    return described
