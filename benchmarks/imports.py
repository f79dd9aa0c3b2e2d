"""How long ``import oplib`` takes where jax is imported already, in processes of their own."""

from __future__ import annotations

import os
import shutil
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
    """Yields two rows; the figure of each is seconds, and its control what importing jax costs.

    Users have bytecode from the second import on. Without it oplib alone is compiled anew by each process.
    """
    script = _SCRIPT.format(clock=effort.clock.__name__)
    times = max(5, effort.least_rounds)
    with tempfile.TemporaryDirectory() as cache:
        _import_once(script, cache, writes=True)
        yield _make_row(
            "import oplib, beyond import jax", 0.25, [_import_once(script, cache) for _ in range(times)]
        )
        shutil.rmtree(cache + str(ROOT / "oplib"))
        yield _make_row(
            "the same without bytecode", 0.40, [_import_once(script, cache) for _ in range(times)]
        )


def _make_row(what: str, bound: float, pairs: list[tuple[float, float]]) -> Row:
    mine, its = zip(*pairs, strict=True)
    return Row(what, "import jax", bound, Comparison(mine, its), seconds=sorted(mine)[len(mine) // 2])


def _import_once(script: str, cache: str, writes: bool = False) -> tuple[float, float]:
    bytecode = {"PYTHONDONTWRITEBYTECODE": "" if writes else "1", "PYTHONPYCACHEPREFIX": cache}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **bytecode}, capture_output=True, text=True, check=True
    )
    mine, its = map(float, done.stdout.split())
    return mine, its
