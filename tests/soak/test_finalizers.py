"""Finalizers that compute while the collector runs at every allocation, in the middle of other code."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import jax
import pytest

import oplib
from oplib.tensor.storage.escape import is_inside_trace
from tests.counts import counts
from tests.soak.rounds import repeat

pytestmark = pytest.mark.slow

MOST = 60
"""The finalizers of a round. Each makes the garbage of the next."""


def double(x: jax.Array) -> jax.Array:
    return x * 2


def run_ops(path: Path) -> bool:
    x = oplib.arange(4.0)
    x[1:] += 1
    return (x * 2).tolist() == [0.0, 4.0, 6.0, 8.0]


def run_backward(path: Path) -> bool:
    x = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with oplib.enable_grad():  # it may interrupt a hook
        (x * x).sum().backward()
    return x.grad is not None and x.grad.tolist() == [2.0, 4.0, 6.0]


@oplib.jit
def compiled(x: oplib.Tensor) -> oplib.Tensor:
    return (x * 3).sum()


def run_compiled(path: Path) -> bool:
    return compiled(oplib.ones(3)).item() == 9


def register(path: Path) -> bool:
    library = oplib.library.Library("soak_finalizers", "FRAGMENT")
    try:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", double)
        return oplib.ops.soak_finalizers.double(oplib.ones(2)).tolist() == [2.0, 2.0]
    finally:
        library._destroy()


def save(path: Path) -> bool:
    oplib.save({"x": oplib.ones(3)}, path)
    return oplib.load(path)["x"].tolist() == [1.0, 1.0, 1.0]


WORK = [run_ops, run_backward, run_compiled, register, save]


class Garbage:
    """A cycle. Its finalizer does one piece of work, and leaves the next garbage.

    On Python 3.11 another thread does the work: there the collector runs inside of a call of JAX too, and
    jaxlib loses references to code if the same thread calls it again.
    """

    def __init__(self, pieces: Iterator[Any], do: Callable[[Any], object]) -> None:
        self.itself, self.pieces, self.do = self, pieces, do

    def __del__(self) -> None:
        piece = next(self.pieces, None)
        if piece is not None:
            Garbage(self.pieces, self.do)
            self.do(piece)


def start_worker(path: Path, done: list[Any]) -> tuple[Callable[[Any], object], Callable[[], object]]:
    """Returns a function that does a piece of work, and one that waits until all is done."""

    def work(piece: Any) -> None:
        try:
            done.append((piece.__name__, piece(path)))
        except BaseException as error:  # noqa: BLE001  an error of a finalizer would only be printed
            done.append((piece.__name__, repr(error)))

    if sys.version_info >= (3, 12):
        return (lambda piece: is_inside_trace() or work(piece)), lambda: None
    queue: SimpleQueue[Any] = SimpleQueue()
    thread = threading.Thread(target=lambda: [work(piece) for piece in iter(queue.get, None)])
    thread.start()
    return queue.put, lambda: (queue.put(None), thread.join())


def train() -> list[list[float]]:
    """Runs what the finalizers interrupt: writes, hooks, second derivatives, a program, a file."""
    x = oplib.tensor([0.1, 0.2, 0.3], requires_grad=True)
    y = (x * 1).mul_(2).sin()
    y.register_hook(lambda grad: grad * 2)
    (first,) = oplib.autograd.grad(y.sum(), x, create_graph=True)
    (first * first).sum().backward()
    mapped = oplib.vmap(lambda row: row * row.sum())(oplib.ones(2, 3))
    assert x.grad is not None
    return [x.grad.tolist(), first.tolist(), mapped.flatten().tolist(), compiled(x).tolist()]


def test_finalizers_at_every_allocation_compute_and_leave_the_interrupted_code_right(tmp_path: Path):
    expected = train()
    for piece in WORK:
        assert piece(tmp_path / "file")
    before = gc.get_threshold()

    def run_round(numbers: random.Random) -> None:
        done: list[Any] = []
        pieces = iter([numbers.choice(WORK) for _ in range(MOST)])
        do, wait = start_worker(tmp_path / "file", done)
        try:
            gc.set_threshold(1)
            Garbage(pieces, do)
            results = [train() for _ in range(3)]
        finally:
            gc.set_threshold(*before)
            list(pieces)  # no further work
            gc.collect()
            wait()
        assert results == [expected] * 3
        assert len(done) > 20
        assert [one for one in done if one[1] is not True] == []
        counts["finalizers"] += len(done)

    repeat("finalizers", run_round)
