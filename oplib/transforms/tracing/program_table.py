"""The programs of one or several functions, by what calls have in common that one program may serve."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, TypeVar

import jax

from oplib.autograd.array_functions.width import x64
from oplib.autograd.saved_tensors.mutation import is_mutation_allowed
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.dtypes.rules import defaults

MAX_PROGRAMS = 256
P = TypeVar("P")
KEYED = {
    "grad_enabled": "grad mode",
    "inference": "inference mode",
    "autocast": "autocast",
    "forward_enabled": "the flag of forward mode",
    "hooks_disabled": "the text that refuses saved-tensor hooks",
    "in_compiled_region": "a compiled backward around the call",
    "multithreading": "the flag of multithreading",
    "view_replay": "the flag of view replay",
}
"""The state of a thread that each program is compiled for, with its names in texts."""
KEYED_BY_PRESENCE = {"hook_pairs": "saved-tensor hooks"}
"""The state of a thread of which each program knows whether there is one."""
AT_BOUNDARY = frozenset(
    {
        "creation_hooks",
        "draw_logs",
        "hook_pairs",
        "in_trace",
        "node_hooks",
        "observers",
        "region",
        "run",
        "tracing",
        "tracing_scope",
        "watchers",
    }
)
"""The state of a thread that ``use_overlay`` replaces inside a program. A call does to Tensors and Generators
what hooks and logs around it see of one op."""
INLINED = frozenset({"anomaly", "dual_level", "map_levels", "vmap_levels"})
"""The state of a thread in which ``oplib.jit`` runs a function op by op."""
WITHOUT_EFFECT = frozenset(
    {
        "capture_suspended",
        "check_nan",
        "constant_in",  # a trace outside, and only results of that trace are constants
        "failed_reads",
        "locations",
        "sequence_nr",
    }
)
"""The state of a thread on which nothing depends that a program computes."""
PROGRAM_SETTINGS = (
    *KEYED.values(),
    *KEYED_BY_PRESENCE.values(),
    "the permission to write saved tensors",
    "JAX's x64",
    "the default dtype",
    "JAX's default matmul precision",
)
"""The names of the settings that each program is compiled for."""

_precision: Any = jax.default_matmul_precision  # a context manager; ``.value`` is the setting of this thread
_read_keyed = attrgetter(*KEYED)


def read_program_settings() -> Values:
    """Returns the settings that each program is compiled for, in the order of :data:`PROGRAM_SETTINGS`."""
    state = modes.state
    present = bool(state.hook_pairs), is_mutation_allowed()
    return *_read_keyed(state), *present, bool(x64.value), defaults.floating, _precision.value


class ProgramTable(Generic[P]):
    """Programs by key. It has no lock of its own.

    Attributes:
        by_key: the programs for each kind of call, the latest first.
        latest: the programs that the last call used.
    """

    def __init__(self) -> None:
        self.by_key: dict[Any, list[P]] = {}  # no OrderedDict: that hashes its keys again
        self._order: dict[int, None] = {}  # the lists of programs by their id, the latest used last
        self.latest: list[P] = []

    def note_use(self, programs: list[P]) -> None:
        """Notes that a call uses one of these programs; call it if they are not the latest."""
        if programs:
            self.latest = programs
            self._order[id(programs)] = self._order.pop(id(programs), None)

    def add(self, key: Any, program: P) -> None:
        """Enters a program; the least recently used ones make way for it."""
        programs = self.by_key.setdefault(key, [])
        programs.insert(0, program)
        del programs[MAX_PROGRAMS:]
        self.note_use(programs)
        if len(self.by_key) > MAX_PROGRAMS:
            oldest = next(iter(self._order))
            del self._order[oldest]
            self.by_key = {key: held for key, held in self.by_key.items() if id(held) != oldest}

    def clear(self) -> None:
        """Forgets all programs."""
        self.by_key.clear()
        self._order.clear()
        self.latest = []
