"""Candidates: every Tensor, storage and Generator that a function could read while it is traced."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
from jax.core import Tracer

from oplib.errors import DeviceError
from oplib.tensor import Generator, Storage, Tensor
from oplib.tensor.devices.layout import describe_devices
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.fresh import get_array

from .constants import NamesOfCode, identify, read_constants
from .paths import CODE_OF_CLASS, KEYS, SCALARS, CapturedPath, Walk


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
        constants: for each of them that the function may read, by its ``id``, what it holds that is frozen
            into a program.
        identities: for each of these, what :func:`.constants.identify` says of it.
        names: those in the code of the function.
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
        ways = [itertools.takewhile(lambda step: step.step != KEYS, path.list_parents()) for path in paths]
        self.ancestors = {id(parent.value) for way in ways for parent in way}
        self.generators = list(walk.generators.values())
        self.containers = list(walk.containers.values())
        self.constants: dict[int, dict[Any, Any]] = {}
        self.identities: dict[int, dict[str, Any]] = {}
        self.names = NamesOfCode(walk)
        self._find_constants(walk)

    def _find_constants(self, walk: Walk) -> None:
        names = self.names
        compared: dict[int, set[str]] = {}  # the globals of a module, which its functions share
        for path in self.containers:
            value = path.value
            is_on_the_way = id(value) in self.ancestors
            if not is_on_the_way and not any(map(names.lead_to, (path, *path.again))):
                continue
            reads_all = names.reads_all(value, is_on_the_way=is_on_the_way)
            held = read_constants(value, None if reads_all else names.known)
            if isinstance(value, types.FunctionType):
                known = compared.setdefault(id(value.__globals__), set())
                held = {name: constant for name, constant in held.items() if name not in known}
                known |= held.keys()
            is_class = isinstance(value, type)  # its functions are compared as one
            self.constants[id(value)] = {
                key: constant
                for key, constant in held.items()
                if (is_class and isinstance(constant, CODE_OF_CLASS)) or _is_constant(constant, walk)
            }
            is_asked = reads_all or not isinstance(value, dict) or names.asks_keys(value)
            self.identities[id(value)] = identify(path, names) if is_asked else {"bool({})": bool(value)}
        for path in self.operands:
            held = read_constants(path.value, names.known)
            if held:
                self.constants[id(path.value)] = {
                    key: constant for key, constant in held.items() if _is_constant(constant, walk)
                }
            if path.parent is not None and any(map(names.lead_to, (path, *path.again))):
                self.identities[id(path.value)] = identify(path, names)

    @property
    def array_start(self) -> int:
        """The number of the input that is the first array argument."""
        return len(self.storages) + 2 * len(self.generators)

    def read(self) -> list[Any]:
        """Returns the inputs before the array arguments, as they are now."""
        starts = [path.value.start for path in self.generators]
        counts = [part for key, count in starts for part in (key, np.uint32(count))]
        return [*[get_array(storage) for storage in self.storages], *counts]

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


def _is_constant(value: Any, walk: Walk) -> bool:
    """Whether nothing else compares a value: neither an operand nor a container, and no module."""
    if isinstance(value, SCALARS):
        return True
    return not isinstance(value, (Tensor, Generator, types.ModuleType)) and id(value) not in walk.containers


def _has_value(path: CapturedPath) -> bool:
    """Whether a Tensor holds a concrete array. One whose trace has ended raises where it is read."""
    owner = path.value._storage.owner
    return not isinstance(owner, EndedStorage) and not isinstance(owner.array, Tracer)
