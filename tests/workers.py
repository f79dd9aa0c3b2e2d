"""The number of test processes for this machine: ``python -m tests.workers`` prints it."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = 3.0
"""GB for each worker: ``tests/memory.py`` keeps it below 2.5."""


def read_available() -> float | None:
    """Returns the GB of memory that programs can still have, or None where the system does not tell."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        (line,) = (line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024 / 1e9
    try:  # macOS does not tell what is available, so half of all is taken
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2e9
    except (ValueError, OSError):
        return None


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_workers(cores: int, available: float | None) -> int:
    """Returns one worker for each core, and no more than the memory is enough for."""
    return max(1, cores if available is None else min(cores, int(available / MEMORY)))


if __name__ == "__main__":
    print(count_workers(count_cores(), read_available()))
