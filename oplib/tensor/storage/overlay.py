"""Overlays: other arrays in the storages of outside Tensors, seen by the one thread that traces a function.

While ``oplib.jit`` traces a function, the Tensors that the function captures hold traced arrays for the
tracing thread, and their own arrays for every other thread. A storage is observed for that time only: it is
given a class whose ``array`` and ``version`` ask the overlay of the thread. Other reads cost nothing more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from jax.extend.core import get_opaque_trace_state

from .storage import Storage

_ARRAY: Any = Storage.__dict__["array"]
_VERSION: Any = Storage.__dict__["version"]


class Overlay:
    """What the storages and Generators of outside are while one thread traces a function.

    Attributes:
        name: of the function, for errors.
        cells: for each observed storage the one that stands for it.
        shadows: for each Generator the one that stands for it.
        scope: the number of the trace in ``modes.tracing_scope``.
        trace: the opaque state of the trace.
    """

    def __init__(self, name: str, scope: int) -> None:
        self.name = name
        self.scope = scope
        self.cells: dict[Storage, Storage] = {}
        self.shadows: dict[Any, Any] = {}
        self.trace: object = get_opaque_trace_state()

    def is_current_trace(self) -> bool:
        """Returns whether the running code is traced by this trace, and not by one inside it."""
        return self.trace == get_opaque_trace_state()


class _Overlays(threading.local):
    """The overlay of each thread.

    Attributes:
        current: the innermost one, or None.
    """

    current: Overlay | None = None


overlays = _Overlays()


class _Observed:
    """Mixin of a storage whose array and version the overlay of the thread decides."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        """The array in the overlay of this thread; without one, its own."""
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
        """The version in the overlay of this thread; without one, its own."""
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
_counts: dict[Storage, int] = {}  # how many threads observe each storage
_counting = threading.Lock()


def _observed_class(plain: type) -> type:
    found = _observed_classes.get(plain)
    if found is None:
        found = type(plain.__name__, (_Observed, plain), {"__slots__": ()})
        _observed_classes[plain] = found
        _plain_classes[found] = plain
    return found


def observe(storages: Iterable[Storage], observed: list[Storage]) -> None:
    """Lets the overlays decide about storages that are no views, until :func:`stop_observing`.

    Args:
        storages: which ones.
        observed: gets each of them, so that an interrupt leaves none observed.
    """
    for storage in storages:
        with _counting:
            observed.append(storage)
            count = _counts[storage] = _counts.get(storage, 0) + 1
            if count == 1:
                storage.__class__ = _observed_class(type(storage))


def stop_observing(observed: Iterable[Storage]) -> None:
    """Makes storages ordinary again that nobody else observes."""
    for storage in observed:
        with _counting:
            count = _counts[storage] = _counts.get(storage, 1) - 1
            if not count:
                del _counts[storage]
                storage.__class__ = _plain_classes.get(type(storage), type(storage))
