"""Interrupts at each place where Python may deliver one, and what they may not leave behind."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from oplib.testing.leftovers import World

_LOCKS = (type(threading.Lock()), type(threading.RLock()))


def interrupt_everywhere(work: Callable[[], object], *, step: int = 1, first: int = 0) -> Iterator[int]:
    """Runs ``work`` once for each place at which Python looks for signals, interrupts it there, and yields.

    Python delivers a signal when a function begins and after a call of a function written in C. A profile
    function sees the same places, so that no place is left to chance. Two kinds are left out. If a ``with``
    statement outside of oplib calls ``__exit__``, that has no chance to do anything. Inside of JAX, compiled
    code may turn the interrupt into another error, as it does when it compares the keys of a cache.

    Args:
        work: what is interrupted.
        step: 1 for each place; a greater number leaves places out.
        first: the number of the first place.
    """
    place = first
    while _interrupt(work, place):
        yield place
        place += step


def _interrupt(work: Callable[[], object], place: int) -> bool:
    """Returns whether ``work`` has a place with this number, and was interrupted there."""
    left = place + 1

    def count(frame: Any, event: str, _argument: Any) -> None:
        nonlocal left
        if _is_inside_jax(frame):
            return
        if event == "c_return" or (event == "call" and not _is_exit_outside(frame)):
            left -= 1
            if not left:
                raise KeyboardInterrupt

    try:
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(None)
    except KeyboardInterrupt:
        pass
    return left <= 0


def _is_inside_jax(frame: Any) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in {"jax", "jaxlib"}


def _is_exit_outside(frame: Any) -> bool:
    return frame.f_code.co_name == "__exit__" and not frame.f_back.f_globals["__name__"].startswith("oplib.")


def find_locks() -> dict[int, Any]:
    """Returns all locks that modules and objects of oplib hold now."""
    owners = [module for name, module in sys.modules.items() if name.partition(".")[0] == "oplib"]
    objects = (each for each in gc.get_objects() if str(type(each).__module__).partition(".")[0] == "oplib")
    found: dict[int, Any] = {}
    for owner in (*owners, *objects):
        for held in gc.get_referents(owner, *gc.get_referents(owner)):
            if isinstance(held, _LOCKS):
                found[id(held)] = held
    return found


def find_taken(locks: dict[int, Any]) -> list[Any]:
    """Returns those of the locks that somebody holds."""
    return [lock for lock in locks.values() if "unlocked" not in repr(lock)]


def find_leftovers(before: World) -> list[str]:
    """Returns what is another state than before, a line each."""
    return before.find_changes(World())
