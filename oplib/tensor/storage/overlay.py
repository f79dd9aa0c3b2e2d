"""Overlays: while a thread traces a function, it sees other arrays in the storages of outside Tensors.

While ``oplib.jit`` traces a function, the Tensors that the function captures hold traced arrays for the
tracing thread, and their own arrays for other threads. Only during this time a storage is observed: it has a
class whose ``array`` and ``version`` read the overlay of the thread. Other reads cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from jax.extend.core import get_opaque_trace_state

from .fresh import FreshStorage, buffers, make_ordinary
from .storage import Storage

_ARRAY: Any = Storage.__dict__["array"]
_VERSION: Any = Storage.__dict__["version"]


class Overlay:
    """The replacements for outside storages and Generators while one thread traces a function.

    Attributes:
        name: the name of the function, for errors.
        cells: the replacement of each observed storage.
        shadows: the replacement of each Generator.
        read_grads: the ``id`` of each Tensor whose gradient from before was read.
        set_grads: likewise, whose gradient was set.
        scope: the number of the trace in ``modes.tracing_scope``.
        trace: the opaque state of the trace.
        device: the device of all arrays that the function may read; None for several.
    """

    def __init__(self, name: str, scope: int) -> None:
        self.name = name
        self.scope = scope
        self.cells: dict[Storage, Storage] = {}
        self.shadows: dict[Any, Any] = {}
        self.read_grads: set[int] = set()
        self.set_grads: set[int] = set()
        self.trace: object = get_opaque_trace_state()
        self.device: Any = None

    def is_current_trace(self) -> bool:
        """Returns whether the running code belongs to this trace, and not to an inner one."""
        return self.trace == get_opaque_trace_state()


class _Overlays(threading.local):
    """The overlay of each thread.

    Attributes:
        current: the innermost overlay, or None.
    """

    current: Overlay | None = None


overlays = _Overlays()


class _Observed:
    """Mixin of a storage that reads its array and version from the overlay of the thread."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array in the overlay of this thread, or its own."""
        overlay = overlays.current
        cell = None if overlay is None else overlay.cells.get(self)  # pyright: ignore[reportArgumentType]  a storage
        return _ARRAY.__get__(self) if cell is None else cell.array

    @array.setter
    def array(self, value: Any) -> None:
        overlay = overlays.current
        cell = None if overlay is None else overlay.cells.get(self)  # pyright: ignore[reportArgumentType]  a storage
        if cell is None:
            _ARRAY.__set__(self, value)
        else:
            cell.array = value

    @property
    def version(self) -> int:
        """The version in the overlay of this thread, or its own."""
        overlay = overlays.current
        cell = None if overlay is None else overlay.cells.get(self)  # pyright: ignore[reportArgumentType]  a storage
        return _VERSION.__get__(self) if cell is None else cell.version

    @version.setter
    def version(self, value: int) -> None:
        overlay = overlays.current
        cell = None if overlay is None else overlay.cells.get(self)  # pyright: ignore[reportArgumentType]  a storage
        if cell is None:
            _VERSION.__set__(self, value)
        else:
            cell.version = value


_observed_classes: dict[type, type] = {}
_plain_classes: dict[type, type] = {}
_observers: dict[Storage, set[int]] = {}  # the traces that observe each storage, by the id of their list


def _observed_class(plain: type) -> type:
    found = _observed_classes.get(plain)
    if found is None:
        found = type(plain.__name__, (_Observed, plain), {"__slots__": ()})
        _observed_classes[plain] = found
        _plain_classes[found] = plain
    return found


def list_classes(storage: Storage) -> frozenset[type]:
    """Returns the classes that a storage may have: fresh or not, and observed by a trace or not."""
    plain = _plain_classes.get(type(storage), type(storage))
    if plain in (Storage, FreshStorage):
        return frozenset([Storage, FreshStorage, _observed_class(Storage)])
    return frozenset([plain, _observed_class(plain)])


def observe(storages: Iterable[Storage], observed: list[Storage]) -> None:
    """Makes storages that are not views read the overlays, until :func:`stop_observing`.

    Args:
        storages: the storages.
        observed: receives each of them, so that none stays observed after an interrupt.
    """
    for storage in storages:
        with buffers:  # which class a storage has changes under this lock
            observed.append(storage)
            traces = _observers.setdefault(storage, set())
            traces.add(id(observed))
            if len(traces) == 1:
                make_ordinary(storage)
                storage.__class__ = _observed_class(type(storage))


def stop_observing(observed: list[Storage]) -> None:
    """Makes storages ordinary again, unless other threads observe them. It may be called twice."""
    for storage in observed:
        with buffers:  # which class a storage has changes under this lock
            traces = _observers.get(storage, set())
            traces.discard(id(observed))
            if not traces:
                storage.__class__ = _plain_classes.get(type(storage), type(storage))
                _observers.pop(storage, None)
