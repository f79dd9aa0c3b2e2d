"""``oplib.save`` and ``oplib.load`` of a large Tensor, over torch's."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import oplib

from .rounds import Case, Effort, compare
from .table import Row

MEGABYTES = 256


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row for each of the two, into and out of a folder for temporary files."""
    what = f"{{}} of {MEGABYTES} MB"
    if importlib.util.find_spec("torch") is None:
        yield Row(what.format("save and load"), "torch", note="torch is not importable")
        return
    torch: Any = importlib.import_module("torch")  # optional, and slow to import
    few = replace(effort, seconds=0.0, least_rounds=5)
    with tempfile.TemporaryDirectory() as folder:
        mine, its = Path(folder) / "mine", Path(folder) / "its"
        saved = oplib.zeros(MEGABYTES, 2**18), torch.zeros(MEGABYTES, 2**18)

        def save_its() -> None:
            torch.save({"weight": saved[1]}, its)
            with its.open("rb+") as file:  # oplib.save returns when the file is on the disk
                os.fsync(file.fileno())

        cases = Case(lambda: oplib.save({"weight": saved[0]}, mine)), Case(save_its)
        yield Row(what.format("save"), "torch, and os.fsync", 1.2, compare(*cases, few))
        cases = Case(lambda: oplib.load(mine)["weight"]), Case(lambda: torch.load(its)["weight"])
        yield Row(what.format("load"), "torch", 1.5, compare(*cases, few))
