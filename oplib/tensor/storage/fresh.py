"""Storages whose array no other code holds, so that a compiled program may use its buffer again.

A program of ``oplib.jit`` puts the arrays that it returns into fresh storages. The first read makes a storage
ordinary: from then on other code may hold the array. A program that uses the buffers of fresh storages holds
:data:`buffers` until the new arrays are there, and readers in other threads wait for it.
"""

from __future__ import annotations

import threading
from typing import Any

from .storage import Storage

_SLOT: Any = Storage.__dict__["array"]

buffers = threading.RLock()
"""Held while buffers of fresh storages are in use. Two locks could wait for each other, so there is one."""


class FreshStorage(Storage):
    """Holds an array that a program has returned and that no code has read."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array. Reading it makes the storage ordinary."""
        with buffers:
            _become_ordinary(self)
            return _SLOT.__get__(self)

    @array.setter
    def array(self, value: Any) -> None:
        with buffers:
            _become_ordinary(self)
            _SLOT.__set__(self, value)

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it leaves the storage fresh."""
        return _SLOT.__get__(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        with buffers:
            _become_ordinary(self)  # pickling notes the class before it reads the array
        return Storage.__reduce_ex__(self, protocol)


def _become_ordinary(storage: Any) -> None:
    if storage.__class__ is FreshStorage:  # a trace in another thread may observe it by now
        storage.__class__ = Storage


peek = _SLOT.__get__
"""Returns the array of a storage that is not a view. The storage stays fresh."""

poke = _SLOT.__set__
"""Gives a storage that is not a view an array. The storage stays what it is. The caller holds ``buffers``."""
