"""Keeping a table: as text to read, and as JSON to compare with."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

from .table import Row

FOLDER = Path(__file__).parent / "results"


def describe_machine(*, clock: str) -> str:
    """Returns what the figures depend on, in one line; nothing that names the machine."""
    parts = [
        f"Python {platform.python_version()}",
        f"jax {jax.__version__}",
        f"torch {_find_version('torch')}",
        f"{jax.devices()[0].device_kind} ({jax.default_backend()})",
        f"{os.cpu_count()} cores",
        f"{clock} clock",
    ]
    if hasattr(os, "getloadavg"):  # not on every platform
        parts.append(f"load {os.getloadavg()[0]:.1f}")
    return ", ".join(parts)


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def save(name: str, rows: Sequence[Row], lines: Sequence[str]) -> str:
    """Writes the table under the date and a name, and returns where it stands, without its ending."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{dt.datetime.now(tz=dt.UTC).date()}-{name}"
    data = {"machine": lines[0], "rows": [row.as_json() for row in rows]}
    path.with_name(path.name + ".json").write_text(json.dumps(data, indent=2) + "\n")
    path.with_name(path.name + ".txt").write_text("\n".join(lines) + "\n")
    return str(path.relative_to(FOLDER.parent.parent))
