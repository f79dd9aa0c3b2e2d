"""Runs pytest in forks of one process that has imported what the tests import from elsewhere.

``python -P tests/warm.py`` reads a line for each run: JSON of the seconds of CPU time that it may take, and
of the arguments of pytest. It answers by the exit code, or by null after the limit. Each fork imports the
project anew, from PYTHONPATH. JAX can be forked until it makes its backend, and no import does so.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import warnings
from types import FrameType
from typing import NoReturn

WAITED = 10
"""Seconds of a run for each of its CPU time: it may wait for ever, or for a processor."""

IMPORTED = ("jax.numpy", "numpy", "optree", "torch", "optax", "hypothesis", "pytest", "_pytest.pytester")


def import_others() -> None:
    """Imports the libraries that most tests import."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # JAX reads it when it is imported
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()


def run_tests(arguments: list[str], seconds: int) -> int:
    """Runs pytest in this process, as leader of a group and without output, and returns its exit code."""
    import pytest  # the tests of another project may have no more than this

    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.argv = ["pytest", *arguments]
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(sink, stream)
    # Its own plugins are imported already; nobody reads their assertions here.
    return int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments]))


def fork(arguments: list[str], seconds: int) -> int:
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


def wait(process: int, seconds: int) -> int | None:
    """Returns the exit code of a process, or None if its time is up; ends it and what it has started."""
    signal.alarm(seconds)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return None if code == -signal.SIGXCPU else code
    except TimeoutError:
        return None
    finally:
        signal.alarm(0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)


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
