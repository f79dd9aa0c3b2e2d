"""Complete training steps as one program of ``oplib.jit``, over ``torch.compile``: minutes of compiling."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Iterator
from typing import Any

import oplib
from tests.programs.catalogue import PROGRAMS

from .against_torch import ABSENT
from .programs import LEFT_OUT, make_step
from .rounds import Comparison, Effort, compare
from .table import Row

TITLE = "training steps, over torch.compile"
CONTROL = "torch.compile"
MEAN = 0.7
WARM_UP = 10  # steps; torch.compile compiles again when gradients and sizes have changed


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row for each program that ``torch.compile`` runs, then the geometric mean."""
    if importlib.util.find_spec("torch") is None:
        yield Row("training steps", CONTROL, note=ABSENT)
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    ratios: list[float] = []
    for name in PROGRAMS:
        if name == LEFT_OUT:
            continue
        torch.compiler.reset()  # its limit of compilations counts those of other programs
        try:
            its = make_step(PROGRAMS[name], torch, torch.compile)
            for _ in range(WARM_UP):
                its.call()
        except Exception as error:  # of many kinds: no compiler, no second derivatives  # noqa: BLE001
            yield Row(f"{name}, oplib.jit", CONTROL, note=f"torch.compile does not run it: {error!r:.200}")
            continue
        measured = compare(make_step(PROGRAMS[name], oplib, oplib.jit), its, effort)
        ratios.append(measured.ratio)
        yield Row(f"{name}, oplib.jit", CONTROL, None, measured)
    if ratios:
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        yield Row("geometric mean, oplib.jit", CONTROL, MEAN, Comparison((mean,), (1.0,)))
