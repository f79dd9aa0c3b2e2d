"""The memory of a worker: programs of JAX are dropped where it holds much, and no worker may pass a bound.

15,000 tests compile some 100,000 programs. JAX keeps each of them, so a worker would end at 8 GB.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

BOUND = 2.5
"""GB that no worker may pass; ``tests/workers.py`` counts on 3."""

DROP_ABOVE = 1.6
"""GB from which a worker drops what was compiled, before its next test."""

GROWTH = 0.35
"""GB by which a worker grows, at least, between two drops: what it holds for good may reach DROP_ABOVE."""

peaks: list[tuple[float, str]] = []
"""Of each worker that has ended the GB, and the test after which it had held them."""

PEAK = "peak memory"
"""The key under which a worker hands its peak over."""

_peak = (0.0, "")
"""The GB of this process after a test, and the first test that found it so large."""

_floor = 0.0
"""GB that were left by the last drop."""

_output: dict[str, Any] | None = None

_RESIDENT = Path("/proc/self/statm")


def read_resident() -> float | None:
    """Returns the GB of this process that are in memory, or None where the system does not tell."""
    if not _RESIDENT.exists():
        return None
    return int(_RESIDENT.read_text().split()[1]) * resource.getpagesize() / 1e9


def read_peak() -> float:
    """Returns the most GB that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def hide_older() -> None:
    """Hides the objects that are left from the garbage collector: the tests collect some thousand times.

    The tests themselves, torch and JAX are a million objects, and each collection walks all of them.
    """
    gc.collect()
    gc.freeze()


def drop_compiled() -> None:
    """Drops what JAX has compiled, and gives the memory back to the system; the next calls compile again."""
    jax.clear_caches()
    gc.unfreeze()
    hide_older()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc keeps freed memory else
        trim(0)


def drop_if_large(item: pytest.Item, following: pytest.Item | None) -> None:
    """Drops what was compiled if this process holds much; between files where the system does not tell."""
    global _peak  # noqa: PLW0603  of this process
    if (peak := read_peak()) > _peak[0]:
        _peak = peak, item.nodeid
    if following is not None and following.path != item.path and read_resident() is None:
        drop_compiled()
    drop_above_floor()


def drop_above_floor() -> None:
    """Drops what was compiled if this process holds much, within a test that runs many programs too."""
    global _floor  # noqa: PLW0603  of this process
    held = read_resident()
    if held is not None and held > max(DROP_ABOVE, _floor + GROWTH):
        drop_compiled()
        _floor = read_resident() or 0.0


def collect(output: dict[str, Any]) -> None:
    """Notes the peak that a worker has handed over; a worker that crashed hands over none."""
    if PEAK in output:
        peaks.append(tuple(output[PEAK]))


def configure(config: pytest.Config) -> None:
    """Keeps the dictionary in which a worker hands results over; other processes have none."""
    global _output  # noqa: PLW0603  pytest tells it once
    _output = getattr(config, "workeroutput", None)


def hand_over() -> None:
    """Hands over the peak of a worker; notes that of a run without workers."""
    if _output is not None:
        _output[PEAK] = _peak
    elif not peaks:
        peaks.append(_peak)


def judge() -> None:
    """Ends a run with an error if a worker has passed the bound."""
    if _output is None and (excess := find_excess()):
        pytest.exit(excess, returncode=pytest.ExitCode.TESTS_FAILED)


def find_excess() -> str | None:
    """Returns the sentence about workers that passed the bound."""
    peak, test = max(peaks, default=(0.0, ""))
    if peak <= BOUND or jax.default_backend() != "cpu":  # the libraries of a GPU take a gigabyte alone
        return None
    return (
        f"a worker held {peak:.1f} GB, more than {BOUND} GB, in {test}. A test holds much at once, or keeps "
        "what it makes; tests/memory.py drops what JAX has compiled"
    )


def show(reporter: pytest.TerminalReporter) -> None:
    """Prints the most that a worker has held."""
    if peaks:
        reporter.write_line("peak memory of a worker: {:.1f} GB, in {}".format(*max(peaks)))
