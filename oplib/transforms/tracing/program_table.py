"""The programs of one or several functions, by what calls have in common that one program may serve."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

import jax

from oplib.autograd.array_functions.width import x64
from oplib.modes import modes
from oplib.tensor import get_default_dtype

MAX_PROGRAMS = 256
P = TypeVar("P")
PROGRAM_SETTINGS = (
    "grad mode",
    "inference mode",
    "JAX's x64",
    "the default dtype",
    "autocast",
    "JAX's default matmul precision",
)
"""The names of the settings that each program is compiled for."""

_jax_config: Any = jax.config  # its attributes are made at run time


def read_program_settings() -> tuple[Any, ...]:
    """Returns the settings that each program is compiled for, in the order of :data:`PROGRAM_SETTINGS`."""
    state = modes.state
    precision = _jax_config.jax_default_matmul_precision
    own = state.grad_enabled, state.inference
    return *own, bool(x64.value), get_default_dtype(), state.autocast, precision


class ProgramTable(Generic[P]):
    """Programs by key, the latest used key last. It has no lock of its own.

    Attributes:
        by_key: the programs for each kind of call, the latest first.
    """

    def __init__(self) -> None:
        self.by_key: OrderedDict[Any, list[P]] = OrderedDict()

    def list_programs(self, key: Any) -> list[P]:
        """Returns the programs for a kind of call."""
        programs = self.by_key.get(key)
        if programs is None:
            return []
        self.by_key.move_to_end(key)
        return programs

    def add(self, key: Any, program: P) -> None:
        """Enters a program; the least recently used ones make way for it."""
        programs = self.by_key.setdefault(key, [])
        programs.insert(0, program)
        del programs[MAX_PROGRAMS:]
        self.by_key.move_to_end(key)
        if len(self.by_key) > MAX_PROGRAMS:
            self.by_key.popitem(last=False)
