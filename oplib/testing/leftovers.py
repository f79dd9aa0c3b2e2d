"""State that a test may not leave behind: changed modes or settings, registered ops, a run of the engine."""

from __future__ import annotations

import functools
import sys
from operator import attrgetter, itemgetter
from typing import Any

import jax

from oplib.autograd.engine.run import compilation
from oplib.autograd.saved_tensors.mutation import is_mutation_allowed
from oplib.config import Config, config
from oplib.library.registration.registry import Snapshot, registry
from oplib.modes import ModeState, modes
from oplib.protocols import Values
from oplib.tensor.dtypes.rules import get_default_dtype, set_default_dtype
from oplib.tensor.methods.print_options import printing
from oplib.tensor.storage.escape import note_trace
from oplib.transforms.checkpoint.checkpoint import _setting

# These only count upwards, and mean nothing by their value.
COUNTERS = {"sequence_nr", "tracing_scope"}
SETTINGS = [name for name in Config.__slots__ if name != "uses_fast_path"]  # which follows from two others


read_modes = attrgetter(*(name for name in ModeState.__slots__ if name not in COUNTERS))


class World:
    """Every piece of global state that a test must leave as it found it.

    Every test looks twice, so looking only gathers values; they get their names where something has changed.

    Attributes:
        ops: the registry.
        own, modes, settings, jax_settings: values, by kind.
    """

    def __init__(self) -> None:
        self.ops: Snapshot = registry.save()
        self.own = {
            "default dtype": get_default_dtype(),
            "options of printing": printing.options,
            "recursion limit": sys.getrecursionlimit(),
            "compiler of backward passes": (compilation.is_installed, compilation.compiler),
            "writing saved tensors": is_mutation_allowed(),
            "early stopping of checkpoints": _setting.early_stop,
        }
        note_trace(modes.state)
        self.modes = read_modes(modes.state)
        self.settings = tuple(getattr(config, name) for name in SETTINGS)
        self.jax_settings = read_jax_settings()

    @property
    def state(self) -> dict[str, Any]:
        """All but the registry, by readable names."""
        names = [name for name in ModeState.__slots__ if name not in COUNTERS]
        return {
            **self.own,
            **{f"modes.{name}": value for name, value in zip(names, self.modes, strict=True)},
            **{f"oplib.config.{name}": value for name, value in zip(SETTINGS, self.settings, strict=True)},
            **{f"jax.config.{name}": value for name, value in name_jax_settings(self.jax_settings).items()},
        }

    def find_changes(self, later: World) -> list[str]:
        """Returns one line for each piece of state that is another one later."""
        if vars(self) == vars(later):
            return []
        before, after = self.state, later.state
        if self.ops != later.ops:
            before, after = before | list_ops(self.ops), after | list_ops(later.ops)
        return [
            f"{name}: {before.get(name)!r} became {after.get(name)!r}"
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]

    def restore(self) -> None:
        """Puts state back, so that the tests after the guilty one see a clean world."""
        registry.restore(self.ops)
        sys.setrecursionlimit(self.state["recursion limit"])
        set_default_dtype(self.state["default dtype"])
        printing.options = self.state["options of printing"]
        compilation.is_installed, compilation.compiler = self.state["compiler of backward passes"]
        _setting.early_stop = self.state["early stopping of checkpoints"]
        for name, value in self.state.items():
            owner, _, attribute = name.rpartition(".")
            if owner == "modes":
                setattr(modes.state, attribute, value)
            elif owner == "oplib.config":
                setattr(config, attribute, value)
            elif owner == "jax.config" and getattr(jax.config, attribute, value) != value:
                jax.config.update(attribute, value)


def list_ops(ops: Snapshot) -> dict[str, Any]:
    """Returns what is registered, by a readable name."""
    return {
        **{f"op {name}": Pieces(pieces) for name, pieces in ops.contributions.items()},
        **{f"disabled kernels of {name}": slots for name, slots in ops.disabled.items() if slots},
    }


class Pieces(tuple[Any, ...]):
    """The registrations of an op, shown short."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{', '.join(piece.slot for piece in self)} (registered at {self[-1].site})"


def read_jax_settings() -> Values:
    """Returns JAX's settings as this thread sees them: an attribute knows of the contexts it is in."""
    values = jax.config.values
    seen, unseen = choose_readers(tuple(values))
    return (tuple(values), seen(jax.config), unseen(values))


@functools.lru_cache(maxsize=4)  # settings are added as modules of JAX are imported
def choose_readers(names: tuple[str, ...]) -> tuple[attrgetter[Any], itemgetter[Any]]:
    """Returns how to read settings that are attributes, and those that are not."""
    return (
        attrgetter(*(name for name in names if hasattr(jax.config, name))),
        itemgetter(*(name for name in names if not hasattr(jax.config, name))),
    )


def name_jax_settings(settings: Values) -> dict[str, Any]:
    """Returns what :func:`read_jax_settings` gave, by name."""
    names, seen, unseen = settings
    attributes = [name for name in names if hasattr(jax.config, name)]
    others = [name for name in names if not hasattr(jax.config, name)]
    return dict(zip([*attributes, *others], [*seen, *unseen], strict=True))
