"""Storage of a table: as text to read, and as JSON to compare with."""

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
    """Returns the conditions of the measurement in one line, without the name of the machine."""
    parts = [
        f"Python {platform.python_version()}",
        f"jax {jax.__version__}",
        f"torch {_find_version('torch')}",
        f"{jax.devices()[0].device_kind} ({jax.default_backend()})",
        f"{count_cores()} of {os.cpu_count()} cores",
        f"{clock} clock",
    ]
    if hasattr(os, "getloadavg"):  # not on every platform
        parts.append(f"load {os.getloadavg()[0]:.1f}")
    return ", ".join(parts)


def use_cores(count: int) -> None:
    """Binds this process and its future threads to ``count`` cores, before JAX starts its threads.

    If another program needs a core too, threads of torch that wait for each other also wait for that program,
    and a step takes a hundred times as long. With one core this cannot happen. A platform that cannot bind a
    process keeps all cores; the first line of the table then says so.

    Args:
        count: the number of cores; 0 for all of them.
    """
    if count and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def name_machine() -> str:
    """Returns the kind of this machine, without its name: ``x86_64-2-cores``."""
    return f"{platform.machine() or 'unknown'}-{os.cpu_count()}-cores"


def save(name: str, rows: Sequence[Row], lines: Sequence[str]) -> str:
    """Writes the table under the date and a name, and returns its path without the ending."""
    FOLDER.mkdir(exist_ok=True)
    today = dt.datetime.now(tz=dt.UTC).date()
    path = FOLDER / f"{today}-{name}"
    data = {"machine": lines[0], "rows": [row.as_json() for row in rows]}
    path.with_name(path.name + ".json").write_text(json.dumps(data, indent=2) + "\n")
    path.with_name(path.name + ".md").write_text(_format_page(today, lines))
    return str(path.relative_to(FOLDER.parent.parent))


def _format_page(today: dt.date, lines: Sequence[str]) -> str:
    machine, *table = lines
    facts = "\n".join(f"- {fact}" for fact in machine.split(", "))
    how = "How to read it: `python -m benchmarks --help`. Rows that are not printed stand in the JSON file."
    return "\n".join([f"# What oplib costs, {today}", "", facts, "", how, "", "```text", *table, "```", ""])
