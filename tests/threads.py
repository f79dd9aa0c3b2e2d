"""Running something in other threads, and what it gives or raises there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Result = TypeVar("Result")


def run_in_threads(work: Callable[[int], Result], count: int = 4) -> list[Result]:
    """Returns what ``work`` gives for each number, in threads of their own that begin together."""
    start = Barrier(count)

    def begin_together(number: int) -> Result:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin_together, range(count)))


def try_in_threads(work: Callable[[int], Result], count: int = 4) -> list[Result | Exception]:
    """Returns what ``work`` gives or raises for each number, in threads that begin together."""

    def attempt(number: int) -> Result | Exception:
        try:
            return work(number)
        except Exception as error:  # noqa: BLE001  the test decides what may be raised
            return error

    return run_in_threads(attempt, count)


def run_in_thread(work: Callable[[], Result]) -> Result:
    """Returns what ``work`` gives in another thread, or raises what it raises there."""
    return run_in_threads(lambda _: work(), 1)[0]
