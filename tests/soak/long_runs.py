"""Loops of many rounds in a process of its own: ``python -m tests.soak.long_runs NAME ROUNDS SECONDS``.

A loop is a function that prepares what its rounds share, and returns one round. The round is given its
number, so that rounds can differ. It keeps nothing that the next one does not replace: what stays is a leak.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

import oplib
from oplib.autograd import Function
from oplib.autograd.compiled_autograd import enable
from oplib.errors import TracingError
from oplib.library import Library
from oplib.optim import Optimizer
from oplib.utils.checkpoint import checkpoint

Round = Callable[[int], object]
LOOPS: dict[str, Callable[[], Round]] = {}

SHAPES = 50
"""Of a program that is compiled for each: a warm-up sees all of them."""

LEAST = 2000
"""Rounds of a run, however long they take: 0.1 to 10 ms each. Its warm-up has as many."""

STEP = 512
"""Kilobytes above which the rounds run once more: a table of Python grows once, a leak each time."""

REFUSED = 7
"""The status of a forked child whose calls were refused with their cure."""


def loop(prepare: Callable[[], Round]) -> Callable[[], Round]:
    """Adds a loop to the table."""
    LOOPS[prepare.__name__] = prepare
    return prepare


def make_leaf(size: int = 4) -> oplib.Tensor:
    return oplib.tensor([0.1 * (place + 1) for place in range(size)], requires_grad=True)


@loop
def eager_training() -> Round:
    weight, bias = make_leaf(), make_leaf()
    optimizer = Optimizer(optax.sgd(0.01, momentum=0.9), [weight, bias])
    data = oplib.rand(3, 4)

    def step(number: int) -> None:
        optimizer.zero_grad()
        ((data * weight + bias).tanh() - 0.5).square().sum().backward()
        optimizer.step()

    return step


@loop
def programs_of_changing_shapes() -> Round:
    weight = oplib.tensor(0.5, requires_grad=True)

    @oplib.jit
    def program(x: oplib.Tensor) -> oplib.Tensor:
        loss = (x * weight).sin().sum()
        loss.backward()
        return loss.detach()

    def run(number: int) -> None:
        weight.grad = None
        program(oplib.ones(1 + number % SHAPES))

    return run


@loop
def ops_defined_and_dropped() -> Round:
    def double(x: jax.Array) -> jax.Array:
        return x * 2

    def backward(ctx: Any, grad: jax.Array) -> jax.Array:
        return grad * 2

    def define(number: int) -> None:
        library = Library("soak_dropped", "FRAGMENT")
        try:
            library.define("double(Tensor x) -> Tensor")
            library.impl("double", double)
            oplib.library.register_autograd("soak_dropped::double", backward, lib=library)
            x = make_leaf()
            oplib.ops.soak_dropped.double(x).sum().backward()
        finally:
            library._destroy()

    return define


@loop
def hooks_added_and_removed() -> Round:
    x = make_leaf()

    def hook(number: int) -> None:
        y = x * 2
        handles = [
            x.register_hook(lambda grad: grad * 2),
            y.register_hook(lambda grad: None),
            x.register_post_accumulate_grad_hook(lambda leaf: None),
            y.grad_fn.register_hook(lambda results, grads: None),
            y.grad_fn.register_prehook(lambda grads: None),
            oplib.autograd.graph.register_multi_grad_hook([x, y], lambda grads: None),
        ]
        y.sum().backward()
        x.grad = None
        for handle in handles:
            handle.remove()

    return hook


@loop
def exceptions_in_backward() -> Round:
    x = make_leaf()

    def raise_error(grad: oplib.Tensor) -> None:
        raise KeyError("of a hook")

    def fail(number: int) -> None:
        y = x * x
        y.register_hook(raise_error)
        with contextlib.suppress(KeyError):
            y.exp().sum().backward()

    return fail


@loop
def exceptions_while_tracing() -> Round:
    @oplib.jit
    def program(x: oplib.Tensor, divisor: int) -> oplib.Tensor:
        y = x * 2
        if divisor % 2:
            return y / (divisor // 1 - divisor) if y.sum() > 0 else y
        return y * (1 // 0)

    def fail(number: int) -> None:
        with contextlib.suppress(ZeroDivisionError, TracingError):
            program(make_leaf(), number)

    return fail


@loop
def checkpoints() -> Round:
    x = make_leaf()

    def run(number: int) -> None:
        x.grad = None
        y = checkpoint(lambda one: (one * 2).sin().exp(), x, use_reentrant=bool(number % 2))
        y.sum().backward()

    return run


@loop
def maps() -> Round:
    rows = oplib.rand(3, 4)
    program = oplib.vmap(lambda row: (row * row.sum()).sin())

    def run(number: int) -> None:
        x = rows.detach().requires_grad_()
        program(x).sum().backward()
        oplib.vmap(lambda row: row * 2)(x)

    return run


@loop
def compiled_backwards() -> Round:
    x = make_leaf()

    def run(number: int) -> None:
        x.grad = None
        y = (x * 2).sin().exp()
        with enable():
            y.sum().backward()

    return run


@loop
def generators() -> Round:
    def draw(number: int) -> None:
        generator = oplib.Generator().manual_seed(number)
        oplib.rand(3, generator=generator)
        oplib.randn(2, generator=generator)
        state = generator.get_state()
        oplib.Generator().set_state(state)
        oplib.randperm(5, generator=generator)

    return draw


@loop
def views() -> Round:
    base = oplib.zeros(6, 4)

    def write(number: int) -> None:
        rows = [base[row] for row in range(6)]
        rows[number % 6].add_(1)
        base.view(4, 6).t()[1].mul_(0.5)
        [row.tolist() for row in rows]
        copy = base.clone().requires_grad_() * 1
        copy[1:3].mul_(2)
        copy.sum().backward()

    return write


@loop
def printing() -> Round:
    x = make_leaf()

    def show(number: int) -> None:
        y = x * number
        "".join([repr(y), repr(y.grad_fn), f"{y.sum():.3f}", repr(oplib.ops.oplib.mul)])

    return show


class Double(Function):
    """Doubles Tensors and arrays."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 + x * 0


@loop
def functions_on_arrays() -> Round:
    array = jnp.ones(3)

    def run(number: int) -> None:
        Double.apply(array)
        jax.grad(lambda x: Double.apply(x).sum())(array)

    return run


@loop
def functions_made_and_dropped() -> Round:
    array = jnp.ones(3)

    def run(number: int) -> None:
        members = {name: staticmethod(getattr(Double, name)) for name in ("forward", "backward")}
        made = type("Made", (Function,), members)
        jax.grad(lambda x: made.apply(x).sum())(array)
        made.apply(make_leaf()).sum().backward()

    return run


# What stayed ---------------------------------------------------------------------------------------


def read_resident() -> int:
    """Returns the bytes of this process that are in memory, after free memory was given back."""
    gc.collect()
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def count_objects() -> Counter[str]:
    """Returns how many objects of each type the collector knows."""
    while gc.collect():  # JAX's caches drop an entry after its key
        pass
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def run_few(name: str) -> None:
    """Runs a few rounds of a loop, in a process that was spawned."""
    run_round = LOOPS[name]()
    for number in range(3):
        run_round(number)


def fork_once(run_round: Round) -> int:
    """Runs a round in a forked child, and returns its status: ``REFUSED`` if it was refused with the cure."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(100)  # JAX would wait for its threads for ever
    try:
        run_round(0)
    except BaseException as error:  # noqa: BLE001  a child must not return
        os._exit(REFUSED if "'spawn'" in str(error) else 1)
    os._exit(0)


def run_loop(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Runs a loop, and returns by how much it grew after a warm-up; forks and spawns a process in the middle.

    The warm-up fills caches of a bounded size. It is as long as the run, since those of JAX fill slowly.

    Args:
        name: the loop.
        rounds: its rounds after the warm-up, at most.
        seconds: the time of the warm-up after which both have fewer.
    """
    run_round, end, count = LOOPS[name](), time.monotonic() + seconds, 0
    while count < LEAST or (count < rounds and time.monotonic() < end):
        run_round(count)
        count += 1
    found: dict[str, Any] = {"fork": fork_once(run_round) if hasattr(os, "fork") else REFUSED}
    spawned = multiprocessing.get_context("spawn").Process(target=run_few, args=(name,))
    spawned.start()
    spawned.join()
    for number in range(1, 3):
        objects, resident = count_objects(), read_resident()
        for place in range(number * count, (number + 1) * count):
            run_round(place)
        grown = dict((count_objects() - objects).most_common(12))
        kilobytes = (read_resident() - resident) // 1024
        found |= {"rounds": count, "objects": grown, "kilobytes": kilobytes}
        if kilobytes <= STEP:
            break
    return {**found, "spawn": spawned.exitcode}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(run_loop(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
