"""The features of the tape beside torch, if torch is installed: each program is written once for both."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Iterator

import oplib

from .rounds import Case, Effort, compare
from .table import Row
from .tape_programs import PROGRAMS

TITLE = "the tape's features, against torch on this machine"
CONTROL = "the same program in torch"
ABSENT = "torch is not importable: install the extra 'bench'"


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row for each program; without torch they are marked as not run."""
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None  # optional, and slow to import
    if torch is not None:
        importlib.import_module("torch.utils.checkpoint")
    for what, bound, make in PROGRAMS:
        if torch is None:
            yield Row(what, CONTROL, bound, note=ABSENT)
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Input #", UserWarning)  # gradcheck of float32
                measured = compare(Case(make(oplib)), Case(make(torch)), effort)
            yield Row(what, CONTROL, bound, measured)
