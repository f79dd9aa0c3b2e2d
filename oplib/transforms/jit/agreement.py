"""Agreement of processes: those that share a mesh compile the same program, or none of them runs it.

A program with collectives that one process runs alone waits for ever, and two programs that differ exchange
wrong values. So processes compare their programs before they compile (ADR 42).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from oplib.config import config
from oplib.errors import DeviceError


def find_processes(arrays: Iterable[Any]) -> dict[int, Any]:
    """Returns the processes that share arrays, each with its first device; none if one process has all."""
    processes: dict[int, Any] = {}
    for array in arrays:
        if isinstance(array, jax.Array) and not array.is_fully_addressable:
            for device in sorted(array.sharding.device_set, key=lambda device: device.id):
                processes.setdefault(device.process_index, device)
            break
    return processes


def require_agreement(name: str, reason: str, processes: dict[int, Any], text: str) -> None:
    """Waits until all processes that share the mesh of a program are about to compile it.

    Each process sends a digest of the program's text.

    Raises:
        DeviceError: another process compiles another program, or none for ``config.process_timeout`` seconds.
    """
    own, started = jax.process_index(), time.monotonic()
    digests = _exchange_in_time(sha256(text.encode()).digest(), list(processes.values()))
    if not isinstance(digests, list):
        others = ", ".join([str(process) for process in processes if process != own])
        failure = "" if digests is None else f" ({str(digests).partition(chr(10))[0]})"
        raise DeviceError(
            f"{name}: the processes that share the mesh do not all compile this program. Process {own} "
            f"compiles it because {reason}, and has waited {time.monotonic() - started:.3g} s for process "
            f"{others}{failure}. Call the same steps in the same order in all processes, with operands of "
            "the same shapes. No Tensor has been changed; end the run."
        ) from digests
    own_digest = digests[list(processes).index(own)]
    others = [process for process, other in zip(processes, digests, strict=True) if other != own_digest]
    if others:
        raise DeviceError(
            f"{name}: the processes that share the mesh compile different programs. Process {own} compiles "
            f"its own because {reason}, and differs from process {', '.join(map(str, others))}. Compare "
            "step.lower(...).as_text() of them; call the same steps in the same order in all processes, with "
            "operands of the same shapes. No Tensor has been changed."
        )


def _exchange_in_time(digest: bytes, devices: list[Any]) -> list[bytes] | BaseException | None:
    """Returns the digests of all processes; the error if the exchange fails, None if it takes too long.

    JAX waits without a limit, and has no public channel between processes but collectives. So a thread waits.
    """
    answers: list[list[bytes] | BaseException] = []

    def run() -> None:
        try:
            answers.append(_exchange(digest, devices))
        except Exception as error:  # noqa: BLE001  the caller raises it
            answers.append(error)

    thread = threading.Thread(target=run, name="oplib: agreement of processes", daemon=True)
    thread.start()
    thread.join(config.process_timeout)
    return answers[0] if answers else None


def _exchange(digest: bytes, devices: list[Any]) -> list[bytes]:
    mesh = Mesh(np.array(devices), ("process",))
    own = np.frombuffer(digest, np.uint8)[None]
    parts = NamedSharding(mesh, PartitionSpec("process"))
    spread = jax.make_array_from_callback((len(devices), len(digest)), parts, lambda _: own)
    gather = jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, PartitionSpec()))
    return [row.tobytes() for row in np.asarray(gather(spread))]
