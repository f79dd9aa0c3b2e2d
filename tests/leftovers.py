"""What a test may not leave behind: changed modes or settings, registered ops, global hooks."""

from __future__ import annotations

import sys
from typing import Any

import jax

from oplib.config import Config, config
from oplib.modes import ThreadModes, modes

# These only count upwards, and mean nothing by their value.
COUNTERS = {"sequence_nr", "tracing_scope"}


def take_snapshot() -> dict[str, Any]:
    """Returns every piece of global state that a test must leave as it found it, by a readable name."""
    state: dict[str, Any] = {"recursion limit": sys.getrecursionlimit()}
    for name in ThreadModes.__annotations__:
        if name not in COUNTERS:
            state[f"modes.{name}"] = getattr(modes, name)
    for name in Config.__slots__:
        state[f"oplib.config.{name}"] = getattr(config, name)
    for name, value in jax.config.values.items():
        # The attribute, where there is one, knows of contexts that this thread has entered.
        state[f"jax.config.{name}"] = getattr(jax.config, name, value)
    registry = find_registry()
    for qualname, pieces in registry._contributions.items() if registry else ():
        state[f"op {qualname}"] = Pieces(pieces)
        if switched_off := registry._disabled.get(qualname):
            state[f"disabled kernels of {qualname}"] = switched_off
    return state


class Pieces(tuple[Any, ...]):
    """What has been registered for an op, shown short."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{', '.join(piece.slot for piece in self)} (registered at {self[-1].site})"


def find_registry() -> Any:
    """Returns the registry once something has imported it."""
    return getattr(sys.modules.get("oplib.library.registry"), "registry", None)


def find_leftovers(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns one line for each piece of state that differs."""
    return [
        f"{name}: {before.get(name)!r} became {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def restore(before: dict[str, Any]) -> None:
    """Puts state back, so that the tests after the guilty one see a clean world."""
    restore_ops(before)
    sys.setrecursionlimit(before["recursion limit"])
    for name, value in before.items():
        owner, _, attribute = name.rpartition(".")
        if owner == "modes":
            setattr(modes, attribute, value)
        elif owner == "oplib.config":
            setattr(config, attribute, value)
        elif owner == "jax.config" and getattr(jax.config, attribute, value) != value:
            jax.config.update(attribute, value)


def restore_ops(before: dict[str, Any]) -> None:
    """Puts the registry back: ops that are new go, ops that have changed get back what they had."""
    registry = find_registry()
    for qualname, pieces in list(registry._contributions.items()) if registry else ():
        kept = before.get(f"op {qualname}", ())
        if pieces != kept:
            with registry._writing():
                registry._publish(qualname, tuple(kept))
