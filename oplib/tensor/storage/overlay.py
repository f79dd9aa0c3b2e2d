"""Overlays: while a thread traces a function, it sees other arrays in the storages of outside Tensors.

While ``oplib.jit`` traces a function, the Tensors that the function captures hold traced arrays for the
tracing thread, and their own arrays for other threads. Only during this time a storage is observed: it has a
class whose ``array`` and ``version`` read the overlay of the thread. Other reads cost nothing.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from typing import Any
from weakref import ref

from jax.extend.core import get_opaque_trace_state

from .class_changes import change_class
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
        attributes: what stands in place of the ``__dict__`` of each observed Tensor, by its ``id``.
        read_grads: the ``id`` of each Tensor whose gradient from before was read.
        set_grads: likewise, whose gradient was set.
        scope: the number of the trace in ``modes.tracing_scope``.
        trace: the opaque state of the trace.
        device: the device of all arrays that the function may read; None for several.
        takes_writes: whether outside storages may be written.
        outside: the ``id`` of each Tensor that existed before the trace and that the function may find; None
            where that is not known.
        computations: for each traced array whose values are known, by its ``id``: a reference to it, and the
            ``Result`` of ``known.py`` that computes it.
    """

    def __init__(self, name: str, scope: int) -> None:
        self.name = name
        self.scope = scope
        self.cells: dict[Storage, Storage] = {}
        self.shadows: dict[Any, Any] = {}
        self.attributes: dict[int, dict[str, Any]] = {}
        self.read_grads: set[int] = set()
        self.set_grads: set[int] = set()
        self.trace: object = get_opaque_trace_state()
        self.device: Any = None
        self.takes_writes = True
        self.outside: frozenset[int] | None = None
        self.computations: dict[int, tuple[ref[Any], Any]] = {}

    def nest(self) -> Overlay:
        """Returns an overlay for a trace inside of this one: it has these cells, and can have others."""
        inner = copy.copy(self)
        inner.cells = dict(self.cells)
        inner.trace = get_opaque_trace_state()
        return inner

    def put(self, storage: Storage, array: Any) -> None:
        """Lets this thread find an array in a storage."""
        cell = Storage(array)
        cell.version = storage.version
        self.cells[storage] = cell

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
    """Mixin of a storage that reads its array and version from the overlay of the thread.

    The trace of another thread may end at any time, and a program may then make the storage fresh. So its own
    slots are used under the lock under which classes change, and by its class of that moment.
    """

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array in the overlay of this thread, or its own."""
        cell = _find_cell(self)
        if cell is not None:
            return cell.array
        with buffers:
            return _ARRAY.__get__(self) if type(self) in _plain_classes else self.array

    @array.setter
    def array(self, value: Any) -> None:
        cell = _find_cell(self)
        if cell is not None:
            cell.array = value
            return
        with buffers:
            if type(self) in _plain_classes:
                _ARRAY.__set__(self, value)
            else:
                self.array = value

    @property
    def version(self) -> int:
        """The version in the overlay of this thread, or its own."""
        cell = _find_cell(self)
        if cell is not None:
            return cell.version
        with buffers:
            return _VERSION.__get__(self) if type(self) in _plain_classes else self.version

    @version.setter
    def version(self, value: int) -> None:
        cell = _find_cell(self)
        if cell is not None:
            cell.version = value
            return
        with buffers:
            if type(self) in _plain_classes:
                _VERSION.__set__(self, value)
            else:
                self.version = value

    def exchange(self, seen: Any, array: Any, *, counted: bool = True) -> bool:
        """Writes as the class does, under the lock: with these properties it is not atomic without."""
        with buffers:
            kind: Any = type(self)
            return _plain_classes.get(kind, kind).exchange(self, seen, array, counted=counted)


def _find_cell(storage: Any) -> Storage | None:
    """Returns the replacement of a storage in the overlay of this thread."""
    overlay = overlays.current
    return None if overlay is None else overlay.cells.get(storage)


_observed_classes: dict[type, type] = {}
_plain_classes: dict[type, Any] = {}
_observers: dict[Storage, set[int]] = {}  # the traces that observe each storage, by the id of their list


def _observed_class(plain: type) -> type:
    observed = _observed_classes.get(plain)
    if observed is None:
        observed = type(plain.__name__, (_Observed, plain), {"__slots__": ()})
        _observed_classes[plain] = observed
        _plain_classes[observed] = plain
    return observed


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
                change_class(storage, _observed_class(type(storage)))


def stop_observing(observed: list[Storage]) -> None:
    """Makes storages ordinary again, unless other threads observe them. It may be called twice."""
    for storage in observed:
        with buffers:  # which class a storage has changes under this lock
            traces = _observers.get(storage, set())
            traces.discard(id(observed))
            if not traces:
                change_class(storage, _plain_classes.get(type(storage), type(storage)))
                _observers.pop(storage, None)
