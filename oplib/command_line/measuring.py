"""``bench``, ``jaxpr`` and ``hlo``: what an op costs, and what it compiles to."""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.library.op_objects.overload import find_overload
from oplib.library.opcheck.sample import Sample, flatten, is_inexact
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor, needs_grad
from oplib.testing.samples import make_samples_error, samples

from .output import CommandError, load_module, print_result

_REPEATS = 5


def add_measuring_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    texts = {
        "bench": "the op against its bare jit, forward and backward",
        "jaxpr": "the program of JAX that the op is",
        "hlo": "the program that XLA compiles",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("op", metavar="NS::OP", help="the qualified name")
        command.add_argument("--module", metavar="M", help="a file or module to import before")
        command.add_argument(
            "--shape",
            action="append",
            default=[],
            metavar="NAME=N,M",
            help="the shape of a tensor argument, once for each",
        )
        command.set_defaults(run={"bench": print_times, "jaxpr": show_jaxpr, "hlo": show_hlo}[name])
        if name == "hlo":
            command.add_argument("--optimized", action="store_true", help="after XLA's optimizations")


def _prepare(options: argparse.Namespace) -> Sample:
    """Returns the op with the arguments of a call."""
    if options.module is not None:
        load_module(options.module)
    op = find_overload(options.op, subject="op")
    shapes = dict(map(_read_shape, options.shape)) or None
    calls = samples(op, shapes=shapes)
    if not calls:
        tried = f" with {' '.join(options.shape)}" if shapes else ""
        names = ", ".join(argument.name for argument in op.record.schema.arguments if argument.has_tensor)
        cause = getattr(make_samples_error(op, shapes), "__cause__", None)
        reason = f". It raises {type(cause).__name__}: {cause}" if cause else ""
        raise CommandError(
            f"{op.name()}: no arguments are known that it accepts{tried}; "
            f"give --shape NAME=N,M for each of {names}{reason}"
        )
    return Sample(op, calls[0].args, dict(calls[0].kwargs))


def _read_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, sign, sizes = text.partition("=")
    try:
        if sign:
            shape = tuple(int(size) for size in sizes.split(",") if size)
            if min(shape, default=0) >= 0:
                return name, shape
    except ValueError:
        pass
    raise CommandError(f"--shape {text}: not of the form NAME=N,M")


def _find_arrays(sample: Sample) -> tuple[AnyFunction, list[Any]]:
    """Returns the op as a function of the arrays among its arguments, and these arrays."""
    leaves = sample.make_tensors(requires_grad=False)
    is_array = [isinstance(leaf, Tensor) for leaf in leaves]
    arrays = pick_true(sample.arrays, is_array)
    return lambda *arrays: sample.call_arrays(spread(arrays, is_array, leaves)), arrays


def show_jaxpr(options: argparse.Namespace) -> int:
    """Prints the jaxpr of a call."""
    run, arrays = _find_arrays(_prepare(options))
    text = str(jax.make_jaxpr(run)(*arrays))
    print_result(options, {"op": options.op, "jaxpr": text}, text)
    return 0


def show_hlo(options: argparse.Namespace) -> int:
    """Prints the program of a call."""
    run, arrays = _find_arrays(_prepare(options))
    lowered = jax.jit(run).lower(*arrays)
    text = str(lowered.compile().as_text() if options.optimized else lowered.as_text())
    print_result(options, {"op": options.op, "hlo": text}, text)
    return 0


def print_times(options: argparse.Namespace) -> int:
    """Prints the times of a call and of its backward, and those of the bare jit."""
    sample = _prepare(options)
    name, (run, arrays) = sample.overload.name(), _find_arrays(sample)
    rows = {
        "bare jit": _time(partial(jax.jit(run), *arrays)),
        "call on arrays": _time(_bind(sample, sample.arrays)),
        "call on Tensors": _time(_bind(sample, sample.make_tensors(requires_grad=False))),
    }
    moving = [index for index, array in enumerate(arrays) if is_inexact(array)]
    if moving and sample.needs_grad and sample.is_functional:
        gradient = jax.jit(jax.grad(lambda *arrays: _sum(run(*arrays)), argnums=moving))
        rows["bare jit(grad)"] = _time(partial(gradient, *arrays))
        rows["recorded call and backward"] = _time(_bind_backward(sample))
    lines = [f"{name}, {', '.join(f'{array.dtype}{list(array.shape)}' for array in arrays)}"]
    for row, time in rows.items():
        base = rows["bare jit(grad)" if "backward" in row or "grad" in row else "bare jit"]
        lines.append(f"  {row:<27} {time:10.1f} us   {time / base:6.2f}")
    print_result(options, {"op": name, "microseconds": rows}, "\n".join(lines))
    return 0


def _time(run: Callable[[], Any]) -> float:
    """Returns the shortest time of a call in microseconds, with the work of the device."""

    def wait() -> None:
        jax.block_until_ready(jax.tree.leaves(run()))

    wait()
    timer = timeit.Timer(wait)
    number = max(1, int(0.05 / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(_REPEATS, number)) / number * 1e6


def _bind(sample: Sample, leaves: Sequence[Any]) -> Callable[[], Any]:
    """Returns the call of the op with some leaves."""
    return sample.apply(partial(partial, sample.overload), leaves)


def _sum(results: Any) -> Any:
    return sum(leaf.sum().real for leaf in results if is_inexact(leaf))


def _bind_backward(sample: Sample) -> Callable[[], Any]:
    """Returns the recorded call with the backward of the sum of its results."""
    leaves = sample.make_tensors()
    call, wanted = _bind(sample, leaves), sample.pick(leaves)

    def run() -> list[Any]:
        for leaf in wanted:
            leaf.grad = None
        results = [result for result in flatten(call()) if needs_grad(result)]
        total: Any = sum(result.sum() for result in results)
        total.backward()
        return [leaf.grad for leaf in wanted]

    return run
