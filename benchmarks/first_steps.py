"""The time to the first step of a process that finds compiled code, over that of one that compiles."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .rounds import Comparison, Effort
from .table import Row

TITLE = "first steps with oplib.config.compilation_cache"
BOUND = 0.35
ROOT = Path(__file__).parent.parent
_SCRIPT = """
import sys
from time import {clock} as clock
import numpy
import oplib
from tests.programs.catalogue import PROGRAMS
from tests.programs.training import Maker
oplib.config.compilation_cache = sys.argv[1]
program = PROGRAMS["{name}"]
maker = Maker(oplib, "float32", lambda function: function)
start = clock()
training = program.make(maker)
training.step(**maker.tensors(next(iter(program.draw(numpy.random.default_rng(0))))))
print(clock() - start)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row for each of three programs; the imports are not measured."""
    for name in ("mlp", "convnet", "gpt"):
        script = _SCRIPT.format(clock=effort.clock.__name__, name=name)
        pairs = [_run_twice(script) for _ in range(min(3, effort.least_rounds))]
        mine, its = zip(*pairs, strict=True)
        yield Row(name, "without compiled code", BOUND, Comparison(mine, its))


def _run_twice(script: str) -> tuple[float, float]:
    """Returns the seconds of the second process, and those of the first one, which fills the folder."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_run(script, folder) for _ in range(2))
    return second, first


def _run(script: str, folder: str) -> float:
    command = [sys.executable, "-c", script, folder]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
