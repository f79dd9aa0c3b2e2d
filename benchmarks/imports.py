"""How long ``import oplib`` takes where jax is imported already, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .rounds import Comparison, Effort
from .table import Row

TITLE = "importing"
ROOT = Path(__file__).parent.parent
_SCRIPT = """
from time import {clock} as clock
start = clock()
import jax
between = clock()
import oplib
print(clock() - between, between - start)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the one row; its figure is seconds, and its control what importing jax costs."""
    script = _SCRIPT.format(clock=effort.clock.__name__)
    with tempfile.TemporaryDirectory() as cache:
        _import_once(script, cache)  # writes the bytecode, which a user has from the first import on
        pairs = [_import_once(script, cache) for _ in range(max(5, effort.least_rounds))]
    mine, its = zip(*pairs, strict=True)
    seconds = sorted(mine)[len(mine) // 2]
    yield Row("import oplib, beyond import jax", "import jax", 0.25, Comparison(mine, its), seconds=seconds)


def _import_once(script: str, cache: str) -> tuple[float, float]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    mine, its = map(float, done.stdout.split())
    return mine, its
