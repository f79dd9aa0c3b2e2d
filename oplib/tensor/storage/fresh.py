"""Storages whose array no other code holds, so that a compiled program may use its buffer again.

A program of ``oplib.jit`` leaves the arrays that it returns in one :class:`ProgramOutputs`, where fresh
storages find them. So a call that follows another replaces one list, and touches no storage. The first read
makes a storage ordinary: from then on other code may hold the array. A program that uses the buffers of fresh
storages holds :data:`buffers` until the new arrays are there, and readers in other threads wait for it.

A large array that an eager factory or in-place write has made is fresh too, and the next write uses its
buffer (:func:`rewrite`; ADR 44).
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from jax.core import Tracer

from oplib.errors import AutogradError

from .class_changes import change_class
from .storage import Storage

_ARRAY: Any = Storage.__dict__["array"]
_VERSION: Any = Storage.__dict__["version"]
_read_slot = _ARRAY.__get__

LARGE = 2**18
"""The number of items from which on eager writes use buffers again; smaller arrays are copied as fast."""

buffers = threading.RLock()
"""Held while buffers of fresh storages are in use. Two locks could wait for each other, so there is one."""

if hasattr(os, "register_at_fork"):  # not on Windows
    # else a child would wait forever for a lock that another thread held at the fork
    os.register_at_fork(
        before=buffers.acquire, after_in_parent=buffers.release, after_in_child=buffers.release
    )


reads = [0]
"""How many reads have made a storage ordinary. A signal handler may read between two steps of a thread."""

OutputSlot: TypeAlias = tuple[int, int, object]


class ProgramOutputs:
    """The arrays of the last call of a program, those that fresh storages hold.

    The fresh storages keep it alive, and no table does.

    Attributes:
        arrays: the arrays; None where no fresh storage holds one, and for a gradient while it is computed.
        slots: for each storage its index, how many writes each call counts, and a mark of these outputs. No
            write is counted for a gradient that each call makes anew.
        versions: for each storage its version after the first of these calls, by its index.
        calls: how many calls have followed the first.
        is_whole: whether all of the storages are still fresh.
        is_known: whether the arrays have been found to be what the program takes at the next call.
    """

    __slots__ = ("__weakref__", "arrays", "calls", "is_known", "is_whole", "slots", "versions")

    def __init__(
        self, arrays: list[Any], indices: Iterable[int] = (0,), counts: Iterable[int] = (1,)
    ) -> None:
        self.arrays = arrays
        self.slots: list[OutputSlot] = list(zip(indices, counts, itertools.repeat(object())))
        self.versions = [0] * len(arrays)
        self.calls = 0
        self.is_whole = True
        self.is_known = False


class FreshStorage(Storage):
    """Holds an array that a program has returned and that no code has read.

    Attributes:
        outputs: where the array is; it stands where another storage has its array.
        slot: which of them it is; it stands where another storage has its version.
    """

    __slots__ = ()

    outputs: Any = _ARRAY
    slot: Any = _VERSION

    @property
    def array(self) -> Any:
        """The array. Reading it makes the storage ordinary."""
        with buffers:
            make_ordinary(self)
            return _read_slot(self)

    @array.setter
    def array(self, value: Any) -> None:
        with buffers:
            make_ordinary(self)
            _ARRAY.__set__(self, value)

    @property
    def version(self) -> int:
        """The number of writes. Reading it leaves the storage fresh."""
        with buffers:
            return _read_version(self) if self.__class__ is FreshStorage else _VERSION.__get__(self)

    @version.setter
    def version(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  a slot there
        with buffers:
            if self.__class__ is FreshStorage:
                outputs, (index, count, _) = self.outputs, self.slot
                outputs.versions[index] = value - outputs.calls * count
            else:
                _VERSION.__set__(self, value)

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it leaves the storage fresh."""
        with buffers:
            return get_array(self)


def make_ordinary(storage: Any) -> None:
    """Makes a storage ordinary that may be fresh; a trace in another thread may observe it by now."""
    with buffers:
        if storage.__class__ is FreshStorage:
            # Python looks for interrupts after calls. The only one is the last, so all happens or nothing.
            outputs, (index, count, _) = storage.outputs, storage.slot
            if outputs.arrays[index] is None:
                raise _make_error()
            storage.outputs = outputs.arrays[index]
            storage.slot = outputs.versions[index] + outputs.calls * count
            outputs.arrays[index] = None
            outputs.is_whole = False
            reads[0] += 1
            change_class(storage, Storage)


def separate(storage: Any) -> None:
    """Takes the array of a gradient from the outputs of a program, so that no call replaces it there.

    The storage stays fresh, and its array goes with it.
    """
    with buffers:
        if storage.__class__ is FreshStorage and not storage.slot[1]:
            _separate_outputs(storage)


def _separate_outputs(storage: Any) -> ProgramOutputs | None:
    """Moves the array of a fresh storage into outputs of its own, and returns these. None: it is not."""
    own = ProgramOutputs([None])
    slot = own.slots[0]
    # No signal handler of this thread runs from here on, as there are no calls.
    if storage.__class__ is not FreshStorage:
        return None
    outputs, (index, count, _) = storage.outputs, storage.slot
    if outputs.arrays[index] is None:
        raise _make_error()
    own.arrays[0], own.versions[0] = outputs.arrays[index], outputs.versions[index] + outputs.calls * count
    storage.outputs, storage.slot = own, slot
    outputs.arrays[index] = None
    outputs.is_whole = False
    return own


def _make_error() -> AutogradError:
    return AutogradError(
        "A gradient is read while a program of oplib.jit computes it. Got a read by a finalizer that Python "
        "runs inside of the call. Read it after the call."
    )


def attach_output(storage: Any, outputs: ProgramOutputs, slot: OutputSlot) -> None:
    """Lets a storage hold an output, and counts the writes. The caller holds ``buffers``.

    A storage that a trace in another thread observes stays observed.
    """
    kind = storage.__class__
    if kind is FreshStorage:
        before, (index, count, _) = storage.outputs, storage.slot
        outputs.versions[slot[0]] = before.versions[index] + before.calls * count + slot[1]
        before.arrays[index] = None
        before.is_whole = False
        storage.outputs, storage.slot = outputs, slot
    elif kind is Storage:
        outputs.versions[slot[0]] = storage.version + slot[1]
        storage.array, storage.version = outputs, slot  # where a fresh storage has them
        change_class(storage, FreshStorage)
    else:
        storage.version += slot[1]
        _ARRAY.__set__(storage, outputs.arrays[slot[0]])


def make_fresh(outputs: ProgramOutputs, slot: OutputSlot, version: int) -> Storage:
    """Makes a storage that holds an output."""
    storage: Any = object.__new__(FreshStorage)
    outputs.versions[slot[0]] = version
    storage.outputs = outputs
    storage.slot = slot
    return storage


def is_large(shape: Sequence[int]) -> bool:
    """Returns whether eager writes use the buffers of arrays of this shape again."""
    size = math.prod(shape)
    return size.__class__ is int and size >= LARGE  # not symbolic


def mark_fresh(storage: Any) -> None:
    """Makes the storage of a new Tensor fresh, unless its array is traced.

    Args:
        storage: no other code has it yet, and its array has no other holder.
    """
    if storage.__class__ is Storage and not isinstance(storage.array, Tracer):
        exchange_for_own(storage, storage.array, storage.array, counted=False)


def exchange_for_own(storage: Any, seen: Any, array: Any, *, counted: bool = True) -> bool:
    """Replaces the array of an ordinary storage, if that is ``seen``, and makes the storage fresh.

    At no time does another thread find the new array in an ordinary storage, where it could take it unseen.

    Args:
        storage: the storage.
        seen: the array that the storage must hold.
        array: the new one, which nothing else holds.
        counted: count a write.

    Returns:
        Whether it is done, as ``Storage.exchange``.
    """
    with buffers:
        outputs = ProgramOutputs([array])
        slot = outputs.slots[0]
        # No other thread runs until the class has changed, see Storage.exchange.
        if storage.__class__ is not Storage or storage.array is not seen:
            return False
        outputs.versions[0] = storage.version + counted
        storage.array, storage.version = outputs, slot  # where a fresh storage has them
        change_class(storage, FreshStorage)
        return True


def rewrite(storage: Any, run: Callable[..., Any], operands: Sequence[Any], seen: Any = None) -> bool:
    """Replaces the array of a fresh storage by one in the same buffer, and counts the write.

    Args:
        storage: the storage.
        run: a compiled function, which has run on such operands before. It donates its first one, which is
            the array, and returns another of the same shape and dtype. It calls no code of users.
        operands: the others.
        seen: the array that the storage must hold; None for any.

    Returns:
        Whether it is done. If not, the storage is not fresh, or it holds another array.
    """
    with buffers:
        outputs = _separate_outputs(storage)
        if outputs is None:
            return False
        array = outputs.arrays[0]
        calls = itertools.starmap(run, ((array, *operands),))
        # Python runs signal handlers after calls, so none reads or writes from here on. An interrupt comes
        # before the program runs or after the write is counted: storing into a slice exhausts the iterator.
        if storage.__class__ is not FreshStorage or storage.outputs is not outputs:
            return False
        if outputs.arrays[0] is not array or (seen is not None and array is not seen):
            return False
        outputs.arrays[:], outputs.versions[0] = calls, outputs.versions[0] + 1
        return True


def get_array(storage: Any) -> Any:
    """Returns the array of a storage that is not a view. The storage stays fresh."""
    if storage.__class__ is FreshStorage:
        return storage.outputs.arrays[storage.slot[0]]
    return _read_slot(storage)


def get_owner_array(storage: Any) -> Any:
    """Returns the array of the owner of a storage. A fresh owner stays fresh.

    Another thread may delete the array, so only its shape, dtype and identity may be read.
    """
    owner = storage.owner
    if owner.__class__ is FreshStorage:
        with buffers:
            if owner.__class__ is FreshStorage:
                return get_array(owner)
    return owner.array


def _read_version(storage: Any) -> int:
    outputs, (index, count, _) = storage.outputs, storage.slot
    return outputs.versions[index] + outputs.calls * count


set_array = _ARRAY.__set__
"""Gives an ordinary storage that is not a view an array. The caller holds ``buffers``."""
