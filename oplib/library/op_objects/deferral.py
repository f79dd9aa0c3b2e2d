"""Deferred registrations: an op is registered at its first use, so importing hundreds of ops is cheap.

Code that looks up or extends an op settles its name first; code that lists ops settles all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

_waiting: dict[str, Callable[[], None]] = {}
_running: set[str] = set()
_lock = threading.RLock()  # re-entrant: registering an op settles its name


def defer(names: Iterable[str], register: Callable[[str], None]) -> None:
    """Defers the registration of ops to their first use.

    Args:
        names: the ``namespace::name`` of each op, without overloads.
        register: called with a name, at most once per name; registers all overloads of the op.
    """
    for name in names:
        _waiting[name] = lambda name=name: register(name)


def settle(name: str) -> bool:
    """Registers the op of this name if it is deferred; returns whether it was, here or in another thread."""
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
    """Registers every deferred op, or those of one namespace."""
    for name in list(_waiting):
        if namespace is None or name.startswith(f"{namespace}::"):
            settle(name)
