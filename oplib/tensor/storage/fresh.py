"""Storages whose array nobody else holds, so that a compiled program may use its buffer again.

A program of ``oplib.jit`` puts the arrays that it returns into fresh storages. The first read makes the
storage an ordinary one: from then on somebody may hold the array. While a program runs on the buffer of a
fresh storage, readers in other threads wait until the new array is there.
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
    """Holds an array that a program has returned and nobody has read."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array; reading it makes the storage an ordinary one."""
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
        """Shape and dtype, which one may ask for without reading."""
        return _SLOT.__get__(self)


peek = _SLOT.__get__
"""Returns the array of a storage that is no view, without counting as a reader."""


def put_fresh(storage: Storage, array: Any) -> None:
    """Gives an ordinary or fresh storage an array that nobody else holds."""
    _SLOT.__set__(storage, array)
    with _marking:
        storage.__class__ = FreshStorage


def claim(storage: Storage, lock: threading.RLock) -> bool:
    """Takes the buffer of a storage for a program, if nobody has read it.

    Args:
        storage: which one.
        lock: what readers in other threads wait for; the caller holds it until :func:`put_fresh`.
    """
    with _marking:
        if storage.__class__ is not FreshStorage:
            return False
        _running[storage] = lock
        return True


def release(storage: Storage) -> None:
    """Lets readers go on."""
    _running.pop(storage, None)
