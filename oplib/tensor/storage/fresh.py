"""Fresh storages: no other code holds their array, so a compiled program may reuse its buffer.

A program of ``oplib.jit`` puts its results into fresh storages. The first read makes a storage ordinary,
because the reader may hold the array. While a program runs on the buffer of a fresh storage, readers in other
threads wait for the new array.
"""

from __future__ import annotations

import threading
from typing import Any

from .storage import Storage

_SLOT: Any = Storage.__dict__["array"]
_marking = threading.Lock()
_running: dict[Storage, threading.RLock] = {}


def _become_ordinary(storage: Any) -> None:
    storage.__class__ = Storage


class FreshStorage(Storage):
    """Holds an array that a program has returned and no code has read."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array. Reading it makes the storage ordinary."""
        lock = _running.get(self)
        if lock is not None:
            with lock:
                pass
        with _marking:
            _become_ordinary(self)
        return _SLOT.__get__(self)

    @array.setter
    def array(self, value: Any) -> None:
        with _marking:
            _become_ordinary(self)
        _SLOT.__set__(self, value)

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it leaves the storage fresh."""
        return _SLOT.__get__(self)


peek = _SLOT.__get__
"""Returns the array of a storage that is not a view. The storage stays fresh."""


def put_fresh(storage: Storage, array: Any) -> None:
    """Gives an ordinary or fresh storage an array that no other code holds."""
    _SLOT.__set__(storage, array)
    with _marking:
        storage.__class__ = FreshStorage


def claim(storage: Storage, lock: threading.RLock) -> bool:
    """Takes the buffer of a storage for a program, if no code has read it.

    Args:
        storage: the storage.
        lock: the lock that readers in other threads wait for. The caller holds it until :func:`put_fresh`.
    """
    with _marking:
        if storage.__class__ is not FreshStorage:
            return False
        _running[storage] = lock
        return True


def release(storage: Storage) -> None:
    """Releases waiting readers."""
    _running.pop(storage, None)
