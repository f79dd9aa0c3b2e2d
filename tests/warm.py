"""Runs pytest in forks of one process that has imported what the tests import from elsewhere.

``python -P tests/warm.py`` reads a line for each run: JSON of the seconds of CPU time that a test may take,
and of the arguments of pytest. It answers by the exit code, or by the name of the test that took longer.
Each fork imports the project anew, from PYTHONPATH. JAX can be forked until it makes its backend, and no
import does so.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import NoReturn

WAITED = 4
"""How many seconds a test may last for each second of its limit: it may wait for ever, or for a processor."""

STARTED = Path(".pytest_cache", "started").absolute()
"""Holds the name of the test that runs, or of the file that is collected."""

IMPORTED = ("jax.numpy", "numpy", "optree", "torch", "optax", "hypothesis", "pytest", "_pytest.pytester")


def import_others() -> None:
    """Imports the libraries that most tests import."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # JAX reads it when it is imported
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()


class Clock:
    """A plugin of pytest that ends the process where a test, or the import of a file, takes too long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        STARTED.parent.mkdir(exist_ok=True)

    def pytest_collectstart(self, collector: object) -> None:
        """Begins to count for a file that is imported."""
        self.start(getattr(collector, "nodeid", ""))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begins to count for a test, its fixtures included."""
        self.start(nodeid)

    def start(self, name: str) -> None:
        """Notes what runs, and counts its CPU time from here on."""
        STARTED.write_text(name)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)  # without a handler, it ends loops in C too


def run_tests(arguments: list[str], seconds: float) -> int:
    """Runs pytest in this process, as leader of a group and without output, and returns its exit code."""
    import pytest  # the tests of another project may have no more than this

    os.setsid()
    sys.argv = ["pytest", *arguments]
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(sink, stream)
    # Its own plugins are imported already; nobody reads their assertions here.
    options = ["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]
    return int(pytest.main(options, plugins=[Clock(seconds)]))


def fork(arguments: list[str], seconds: float) -> int:
    """Starts a run in a fork, and returns its process."""
    with warnings.catch_warnings(action="ignore"):  # JAX warns of threads that it has not started yet
        process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = 1
        try:
            code = run_tests(arguments, seconds)
        finally:
            os._exit(code)
    return process


def wait(process: int, seconds: float) -> int | str:
    """Returns the exit code of a process, or the test that hangs in it; ends it and what it has started."""
    before, started = None, _read_started()
    try:
        while before != started:  # else one test has run for all the time
            with contextlib.suppress(TimeoutError):
                signal.setitimer(signal.ITIMER_REAL, seconds)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                return _read_started() if code == -signal.SIGPROF else code
            before, started = started, _read_started()
        return started
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)


def _read_started() -> str:
    return STARTED.read_text() if STARTED.exists() else ""


def stop(signum: int, frame: FrameType | None) -> NoReturn:
    """Ends the wait for a process."""
    raise TimeoutError


def main() -> None:
    """Serves until the input ends."""
    import_others()
    answers = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        process = fork(arguments, seconds)
        print(json.dumps(wait(process, WAITED * seconds)), file=answers, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
