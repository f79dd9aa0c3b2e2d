"""How long ``import oplib`` takes where jax is imported already, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
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
    _import_once(script)  # writes the byte code
    pairs = [_import_once(script) for _ in range(max(5, effort.least_rounds))]
    mine, its = zip(*pairs, strict=True)
    seconds = sorted(mine)[len(mine) // 2]
    yield Row("import oplib, beyond import jax", "import jax", 0.25, Comparison(mine, its), seconds=seconds)


def _import_once(script: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    mine, its = map(float, done.stdout.split())
    return mine, its
