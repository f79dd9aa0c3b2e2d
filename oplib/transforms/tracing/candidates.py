"""Candidates: every Tensor, storage and Generator that a function could read while it is traced."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.errors import DeviceError
from oplib.tensor import Storage
from oplib.tensor.devices.layout import describe_devices
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.fresh import get_array

from .constants import NamesOfCode, identify
from .paths import KEYS, CapturedPath, Walk


class Candidates:
    """Everything that a function could read, in the order of the inputs of its jaxpr.

    The inputs are the arrays of all storages, then a key and a count for each Generator, then the array
    arguments, then cotangents.

    Args:
        walk: what the function leads to.

    Attributes:
        operands: the Tensors.
        numbers: the number of each of them, by its ``id``.
        storages: the storages that hold arrays; several Tensors may share one.
        holders: for each storage the number of the first operand that shows it.
        ancestors: the ``id`` of every object on the way to an operand.
        generators: the Generators.
        containers: the objects that hold others.
        names: those in the code of the function.
        guarded: what the code may read, or what is on the way to an operand.
        constants: for each of these, by its ``id``, what it holds that is frozen into a program.
        identities: for each of these, what :func:`.constants.identify` says of it.
    """

    def __init__(self, walk: Walk) -> None:
        paths = [path for path in walk.tensors.values() if _has_value(path)]
        self.operands: list[CapturedPath] = paths
        self.numbers = {id(path.value): number for number, path in enumerate(paths)}
        holders: dict[Storage, int] = {}
        for number, path in enumerate(paths):
            holders.setdefault(path.value._storage.owner, number)
        self.storages = list(holders)
        self.holders = list(holders.values())
        ways = [itertools.takewhile(lambda step: step.via != KEYS, path.list_parents()) for path in paths]
        self.ancestors = {id(parent.value) for way in ways for parent in way}
        self.generators = list(walk.generators.values())
        self.containers = list(walk.containers.values())
        self.names = names = NamesOfCode(walk)
        self.guarded = [
            path for path in walk.list_paths() if path.is_reachable or id(path.value) in self.ancestors
        ]
        compared: set[tuple[int, str]] = set()  # the functions of a module share its globals
        self.constants: dict[int, list[CapturedPath]] = {}
        self.identities: dict[int, dict[str, Any]] = {}
        for path in self.guarded:
            value, is_on_the_way = path.value, id(path.value) in self.ancestors
            reads_all = names.reads_all(value, is_on_the_way=is_on_the_way)
            own = self.constants[id(value)] = []
            for child in walk.children[id(value)]:
                if child.is_constant and (
                    child.is_step_of_code
                    or (is_on_the_way and names.may_step(child, path, reads_all=reads_all))
                ):
                    own += () if child.place in compared else (child,)
                    compared.add(child.place)
            is_asked = reads_all or not isinstance(value, dict) or names.asks_keys(value)
            self.identities[id(value)] = identify(path, names) if is_asked else {"bool({})": bool(value)}

    @property
    def array_start(self) -> int:
        """The number of the input that is the first array argument."""
        return len(self.storages) + 2 * len(self.generators)

    def read(self) -> list[Any]:
        """Returns the inputs before the array arguments, as they are now."""
        starts = [path.value.start for path in self.generators]
        counts = [part for key, count in starts for part in (key, np.uint32(count))]
        return [*map(get_array, self.storages), *counts]

    def check_devices(self, name: str, operands: Iterable[int]) -> None:
        """Raises a DeviceError where a program would read operands of these numbers on different devices."""
        paths: dict[frozenset[Any], CapturedPath] = {}
        for path in [self.operands[number] for number in operands]:
            array = get_array(path.value._storage.owner)
            if array.committed:
                paths.setdefault(frozenset(array.sharding.device_set), path)
        if len(paths) > 1:
            (first, left), (second, right), *_ = paths.items()
            raise DeviceError(
                f"{name}: the function reads Tensors on different devices. Got {left.name} on "
                f"{describe_devices(first)}, and {right.name} on {describe_devices(second)}. Move one of "
                "them with tensor.to(device) outside of the function; on a mesh, tensor.to(sharding)."
            )


def _has_value(path: CapturedPath) -> bool:
    """Whether a Tensor holds a concrete array. One whose trace has ended raises where it is read."""
    owner = path.value._storage.owner
    return not isinstance(owner, EndedStorage) and not isinstance(owner.array, Tracer)
