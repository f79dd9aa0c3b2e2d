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
from time import perf_counter
start = perf_counter()
import jax
between = perf_counter()
import oplib
print(perf_counter() - between, between - start)
"""


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the one row; its figure is seconds, and its control what importing jax costs."""
    _import_once()  # writes the byte code
    pairs = [_import_once() for _ in range(max(5, effort.least_rounds))]
    mine, its = zip(*pairs, strict=True)
    seconds = sorted(mine)[len(mine) // 2]
    yield Row("import oplib, beyond import jax", "import jax", 0.25, Comparison(mine, its), seconds=seconds)


def _import_once() -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    mine, its = map(float, done.stdout.split())
    return mine, its
