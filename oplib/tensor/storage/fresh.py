"""Storages whose array no other code holds, so that a compiled program may use its buffer again.

A program of ``oplib.jit`` puts the arrays that it returns into fresh storages. The first read makes a
storage ordinary: from then on other code may hold the array. A program that uses the buffers of fresh
storages holds :data:`buffers` until the new arrays are there, and readers in other threads wait for it.

A large array that an eager factory or in-place write has made is fresh too, and the next write uses its
buffer (:func:`rewrite`; ADR 44).
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from jax.core import Tracer

from .class_changes import change_class
from .storage import Storage

_ARRAY: Any = Storage.__dict__["array"]

LARGE = 2**18
"""The number of items from which on eager writes use buffers again; smaller arrays are copied as fast."""

buffers = threading.RLock()
"""Held while buffers of fresh storages are in use, and while histories of views and packed gradients change.

Two locks could wait for each other, so there is one.
"""

if hasattr(os, "register_at_fork"):  # not on Windows
    # else a child would wait forever for a lock that another thread held at the fork
    os.register_at_fork(
        before=buffers.acquire, after_in_parent=buffers.release, after_in_child=buffers.release
    )


reads = [0]
"""How many reads have made a storage ordinary. A signal handler may read between two steps of a thread."""


class FreshStorage(Storage):
    """Holds an array that no other code has read.

    Attributes:
        held: the array. Reading it here leaves the storage fresh.
    """

    __slots__ = ()

    held: Any = _ARRAY

    @property
    def array(self) -> Any:
        """The array. Reading it makes the storage ordinary."""
        with buffers:
            make_ordinary(self)
            return get_array(self)

    @array.setter
    def array(self, value: Any) -> None:
        with buffers:
            make_ordinary(self)
            _ARRAY.__set__(self, value)

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it leaves the storage fresh."""
        return self.held


def make_ordinary(storage: Any) -> None:
    """Makes a storage ordinary that may be fresh; a trace in another thread may observe it by now."""
    with buffers:
        if storage.__class__ is FreshStorage:
            reads[0] += 1
            change_class(storage, Storage)


def make_fresh(storage: Any, array: Any, count: int) -> None:
    """Gives an ordinary storage an array, makes it fresh, and counts writes. Call it under ``buffers``.

    A storage that a trace in another thread observes stays observed.
    """
    storage.version += count
    _ARRAY.__set__(storage, array)
    if storage.__class__ is Storage:
        change_class(storage, FreshStorage)


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
        # No other thread runs until the class has changed, see Storage.exchange.
        if storage.__class__ is not Storage or storage.array is not seen:
            return False
        storage.array = array
        storage.version += counted
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
        if storage.__class__ is not FreshStorage:
            return False
        array = storage.held
        calls = itertools.starmap(run, ((array, *operands),))
        # Python runs signal handlers after calls, so none reads or writes from here on. An interrupt comes
        # before the program runs or after the write is counted: unpacking exhausts the iterator.
        if storage.__class__ is not FreshStorage or storage.held is not array:
            return False
        if seen is not None and array is not seen:
            return False
        (storage.held,), storage.version = calls, storage.version + 1
        return True


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


set_array = _ARRAY.__set__
"""Gives an ordinary storage that is not a view an array. The caller holds ``buffers``."""

get_array: Callable[[Any], Any] = _ARRAY.__get__
"""Returns the array of a storage that is not a view. The storage stays fresh."""
