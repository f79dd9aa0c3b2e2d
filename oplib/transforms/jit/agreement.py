"""Agreement of processes: those that share a mesh compile the same program, or none of them runs it.

A program with collectives that one process runs alone waits for ever, and two programs that differ exchange
wrong values. So processes compare their programs before they compile, and tell of calls that wait (ADR 42).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from oplib.config import config
from oplib.errors import DeviceError
from oplib.tracebacks import find_user_level

_DIGEST = sha256().digest_size
_PAGE_SIZE = 4096  # bytes


def find_processes(arrays: Iterable[Any]) -> dict[int, Any]:
    """Returns the processes that share arrays, each with its first device; none if one process has all."""
    processes: dict[int, Any] = {}
    for array in arrays:
        if isinstance(array, jax.Array) and not array.is_fully_addressable:
            for device in sorted(array.sharding.device_set, key=lambda device: device.id):
                processes.setdefault(device.process_index, device)
            break
    return processes


def require_agreement(
    name: str, reason: str, processes: dict[int, Any], text: str, operands: Sequence[str]
) -> None:
    """Waits until all processes that share the mesh of a program are about to compile it.

    Each process sends a page: a digest of the text, then the name and the operands as far as they fit. The
    operands are shown as in errors, the arguments first.

    Raises:
        DeviceError: another process compiles another program, or none for ``config.process_timeout`` seconds.
    """
    own, started = jax.process_index(), time.monotonic()
    page = sha256(text.encode()).digest() + "\n".join([name, *operands]).encode()
    pages = _exchange_in_time(page[:_PAGE_SIZE].ljust(_PAGE_SIZE, b"\0"), list(processes.values()))
    if not isinstance(pages, list):
        others = ", ".join([str(process) for process in processes if process != own])
        failure = "" if pages is None else f" ({str(pages).partition(chr(10))[0]})"
        raise DeviceError(
            f"{name}: the processes that share the mesh do not all compile this program. Process {own} "
            f"compiles it because {reason}, and has waited {time.monotonic() - started:.3g} s for process "
            f"{others}{failure}. Call the same steps in the same order in all processes, with operands of "
            "the same shapes. No Tensor has been changed; end the run."
        ) from pages
    own_page = pages[list(processes).index(own)]
    for process, other_page in zip(processes, pages, strict=True):
        if other_page != own_page:
            here, there = _find_difference(own_page, other_page)
            raise DeviceError(
                f"{name}: the processes that share the mesh compile different programs. Process {own} has "
                f"{here}, and process {process} has {there}. Call the same steps in the same order in all "
                "processes, with operands of the same shapes. No Tensor has been changed."
            )


class CallWatch:
    """Warns if a call of a program that several processes run does not end in ``config.process_timeout``.

    A comparison at every call would cost a round trip. JAX cannot end the wait, so a thread tells of it.
    """

    def __init__(self, name: str, processes: dict[int, Any], outputs: Sequence[Any]) -> None:
        self._name = name
        self._others = ", ".join([str(process) for process in processes if process != jax.process_index()])
        sizes = [math.prod(aval.shape) for aval in outputs]
        self._smallest = sizes.index(min(sizes)) if sizes else None
        self._result: Any = None
        self._started: float | None = None
        thread = threading.Thread(
            target=_watch, args=(weakref.ref(self),), name="oplib: watch of calls", daemon=True
        )
        thread.start()

    def begin(self) -> None:
        """Notes that a call begins. It may wait for the other processes itself."""
        self._result, self._started = None, time.monotonic()

    def end(self, results: Sequence[Any] | None) -> None:
        """Notes what a call returned, which may be computed later; None if it raised."""
        if results is None or self._smallest is None:
            self._started = None
        else:
            self._result = results[self._smallest]

    def check(self) -> None:
        """Warns once of a call that has not ended in time."""
        started, result = self._started, self._result
        if started is None or time.monotonic() - started < config.process_timeout:
            return
        waiter = threading.Thread(target=_wait_for, args=(result,), daemon=True)
        if result is not None:
            waiter.start()
            waiter.join(1)
        if self._started != started:
            return  # another call has begun
        self._result = self._started = None
        if result is not None and not waiter.is_alive():
            return
        warnings.warn(
            f"{self._name}: a call has not ended for {config.process_timeout:.3g} s "
            f"(config.process_timeout). Process {jax.process_index()} shares the program with process "
            f"{self._others}, which may not have called it. Call the same steps in the same order in all "
            "processes. The call goes on when they do; else end the run.",
            stacklevel=find_user_level(),
        )


def _wait_for(result: Any) -> None:
    """Waits for a result. ``is_ready`` ends the process where a later call has taken the buffer meanwhile."""
    with contextlib.suppress(RuntimeError):
        result.block_until_ready()


def _watch(reference: Callable[[], CallWatch | None]) -> None:
    """Checks the calls of a program as long as it lives."""
    while (watch := reference()) is not None:
        watch.check()
        del watch
        time.sleep(min(config.process_timeout / 4, 1))


def _find_difference(own: bytes, other: bytes) -> tuple[str, str]:
    """Returns the first lines in which two pages differ."""
    pages = [page[_DIGEST:].rstrip(b"\0").decode(errors="ignore").split("\n") for page in (own, other)]
    for here, there in zip_longest(*pages, fillvalue="no further operand"):
        if here != there:
            return here, there
    digests = [
        f"a program of the same operands, but another text ({page[:4].hex()})" for page in (own, other)
    ]
    return digests[0], digests[1]


def _exchange_in_time(page: bytes, devices: list[Any]) -> list[bytes] | BaseException | None:
    """Returns the pages of all processes; the error if the exchange fails, None if it takes too long.

    JAX waits without a limit, and has no public channel between processes but collectives. So a thread waits.
    """
    answers: list[list[bytes] | BaseException] = []

    def run() -> None:
        try:
            answers.append(_exchange(page, devices))
        except Exception as error:  # noqa: BLE001  the caller raises it
            answers.append(error)

    thread = threading.Thread(target=run, name="oplib: agreement of processes", daemon=True)
    thread.start()
    thread.join(config.process_timeout)
    return answers[0] if answers else None


def _exchange(page: bytes, devices: list[Any]) -> list[bytes]:
    mesh = Mesh(np.array(devices), ("process",))
    own = np.frombuffer(page, np.uint8)[None]
    parts = NamedSharding(mesh, PartitionSpec("process"))
    spread = jax.make_array_from_callback((len(devices), _PAGE_SIZE), parts, lambda _: own)
    gather = jax.jit(lambda pages: pages, out_shardings=NamedSharding(mesh, PartitionSpec()))
    return [row.tobytes() for row in np.asarray(gather(spread))]
