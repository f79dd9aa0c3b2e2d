"""Candidates: every Tensor, storage and Generator that a function could read while it is traced."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.tensor import Storage
from oplib.tensor.storage.fresh import peek

from .places import FoundObject, Walk
from .scalars import NamesOfCode, read_scalars

_NAMED = (type, types.FunctionType, types.ModuleType)


class Candidates:
    """What a function could read, in the order of the inputs of its jaxpr.

    The inputs are the arrays of all storages, then a key and a count for each Generator, then the array
    arguments, then cotangents.

    Args:
        walk: what the function leads to.

    Attributes:
        operands: the Tensors.
        numbers: the number of each of them, by its ``id``.
        storages: the storages that hold arrays; several Tensors may share one.
        holders: for each storage the number of the first operand that shows it.
        generators: the Generators.
        containers: the objects that hold others.
        scalars: for each of them by its ``id`` the numbers, bools and strings that the function may read.
    """

    def __init__(self, walk: Walk) -> None:
        found = [place for place in walk.tensors.values() if not _is_traced(place)]
        self.operands: list[FoundObject] = found
        self.numbers = {id(place.value): number for number, place in enumerate(found)}
        holders: dict[Storage, int] = {}
        for number, place in enumerate(found):
            holders.setdefault(place.value._storage.owner, number)
        self.storages = list(holders)
        self.holders = list(holders.values())
        self.generators = list(walk.generators.values())
        self.containers = list(walk.containers.values())
        self.scalars = self._find_scalars(NamesOfCode(walk))

    def _find_scalars(self, names: NamesOfCode) -> dict[int, dict[str, Any]]:
        ways = self.find_ancestors()
        found: dict[int, dict[str, Any]] = {}
        for place in self.containers:
            is_on_the_way = id(place.value) in ways
            if is_on_the_way or names.lead_to(place):
                is_open = is_on_the_way and names.is_dynamic and not isinstance(place.value, _NAMED)
                listed = None if is_open else names.known
                found[id(place.value)] = read_scalars(place.value, listed)
        return found

    @property
    def array_start(self) -> int:
        """The number of the input that is the first array argument."""
        return len(self.storages) + 2 * len(self.generators)

    def read(self) -> list[Any]:
        """Returns the inputs before the array arguments, as they are now."""
        starts = [place.value.start for place in self.generators]
        counts = [part for key, count in starts for part in (key, np.uint32(count))]
        return [*[peek(storage) for storage in self.storages], *counts]

    def find_storage(self, storage: Storage) -> int | None:
        """Returns the operand that shows a storage; None for one that was made inside."""
        found = (n for n, one in zip(self.holders, self.storages, strict=True) if one is storage)
        return next(found, None)

    def find_ancestors(self) -> set[int]:
        """Returns the ``id`` of every object on the way to an operand."""
        found: set[int] = set()
        for place in self.operands:
            parent = place.parent
            while parent is not None and id(parent.value) not in found:
                found.add(id(parent.value))
                parent = parent.parent
        return found


def _is_traced(place: FoundObject) -> bool:
    return isinstance(place.value._storage.owner.array, Tracer)
