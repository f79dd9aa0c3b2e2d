"""How a call finds the operands that the bodies of a program have captured."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.tensor import Tensor
from oplib.transforms.captures.candidates import Candidates
from oplib.transforms.captures.places import FoundObject, Walk
from oplib.transforms.captures.reader import Reader

from .body import Body
from .leaves import share
from .region import Captured, CapturedArray

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
    takes = [sources.find(captured) for body in bodies for captured in body.captured]
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
        self._storages = {id(place.value._storage.owner): place for place in walk.tensors.values()}

    def find(self, captured: Captured | CapturedArray) -> _Take | None:
        """Returns what takes an operand from the objects in the places; None if nothing leads to it."""
        if isinstance(captured, CapturedArray):
            number = self._number(self._walk.arrays.get(id(captured.value)))
            if number is None:
                return lambda _: captured.tensor
            return lambda found: CapturedArray(found[number]).tensor
        if captured.owner is not None:
            number = self._number(self._walk.tensors.get(id(captured.owner)))
            return None if number is None else lambda found: found[number]
        number = self._number(self._storages.get(id(captured.storage)))
        return None if number is None else lambda found: share(found[number]._storage.owner)

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
            described += [type(one), one._requires_grad, shared, jax.typeof(one._storage.owner.array)]
        if isinstance(array, Tracer) or not isinstance(array, jax.Array):
            return None
        described.append(jax.typeof(array))
    return described
