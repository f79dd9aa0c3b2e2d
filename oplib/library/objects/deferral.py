"""Registrations that wait until somebody asks for their op, so that importing hundreds of ops costs nothing.

Whoever looks an op up, or says something about it, settles its name first; whoever lists ops settles all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

_waiting: dict[str, Callable[[], None]] = {}
_running: set[str] = set()
_lock = threading.RLock()  # re-entrant: to register an op is to say something about it


def defer(names: Iterable[str], register: Callable[[str], None]) -> None:
    """Has ops registered when they are first asked for.

    Args:
        names: ``namespace::name`` of each op, without overloads.
        register: called with such a name, at most once for each; registers all overloads of the op.
    """
    for name in names:
        _waiting[name] = lambda name=name: register(name)


def settle(name: str) -> bool:
    """Registers the op of this name if it waits; returns whether it did, here or in another thread."""
    if name not in _waiting:
        return False
    with _lock:
        register = _waiting.get(name)
        if register is not None and name not in _running:
            _running.add(name)
            try:
                register()
                del _waiting[name]
            finally:
                _running.discard(name)
    return True


def settle_all(namespace: str | None = None) -> None:
    """Registers every op that waits, or those of one namespace."""
    for name in list(_waiting):
        if namespace is None or name.startswith(f"{namespace}::"):
            settle(name)
