"""``bench``, ``jaxpr`` and ``hlo``: what an op costs, and what it compiles to."""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from oplib.library.objects.overload import OpOverload, find_overload
from oplib.tensor import Tensor
from oplib.testing.samples import Call, make_samples_error, samples

from .output import CommandError, load_module, print_json

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


def _prepare(options: argparse.Namespace) -> tuple[OpOverload, Call]:
    """Returns the op and a call of it."""
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
    return op, calls[0]


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


def _split(op: OpOverload, call: Call) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the op as a function of the arrays of a call, and these arrays."""
    leaves, structure = jax.tree.flatten(
        (call.args, dict(call.kwargs)), is_leaf=lambda x: isinstance(x, Tensor)
    )
    arrays = [leaf.detach().array for leaf in leaves if isinstance(leaf, Tensor)]

    def run(*arrays: Any) -> Any:
        rest = iter(arrays)
        filled = [next(rest) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = jax.tree.unflatten(structure, filled)
        return op.functional(*args, **kwargs)

    return run, arrays


def show_jaxpr(options: argparse.Namespace) -> int:
    """Prints the jaxpr of a call."""
    run, arrays = _split(*_prepare(options))
    return _print_program(options, "jaxpr", str(jax.make_jaxpr(run)(*arrays)))


def show_hlo(options: argparse.Namespace) -> int:
    """Prints the program of a call."""
    run, arrays = _split(*_prepare(options))
    lowered = jax.jit(run).lower(*arrays)
    text = lowered.compile().as_text() if options.optimized else lowered.as_text()
    return _print_program(options, "hlo", str(text))


def _print_program(options: argparse.Namespace, form: str, text: str) -> int:
    if options.json:
        print_json({"op": options.op, form: text})
    else:
        print(text)
    return 0


def print_times(options: argparse.Namespace) -> int:
    """Prints the times of a call and of its backward, and those of the bare jit."""
    op, call = _prepare(options)
    run, arrays = _split(op, call)
    bare = jax.jit(run)
    rows = {
        "bare jit": _time(lambda: bare(*arrays)),
        "call on arrays": _time(lambda: op(*_unbox(call.args), **call.kwargs)),
        "call on Tensors": _time(lambda: op(*_detach(call.args), **call.kwargs)),
    }
    moving = [index for index, array in enumerate(arrays) if jnp.issubdtype(array.dtype, jnp.inexact)]
    if moving and op.describe()["backward"].status.name in ("registered", "derived"):
        gradient = jax.jit(jax.grad(lambda *arrays: _sum(run(*arrays)), argnums=moving))
        rows["bare jit(grad)"] = _time(lambda: gradient(*arrays))
        rows["recorded call and backward"] = _time(lambda: _run_backward(op, call))
    if options.json:
        print_json({"op": op.name(), "microseconds": rows})
        return 0
    print(f"{op.name()}, {', '.join(f'{array.dtype}{list(array.shape)}' for array in arrays)}")
    for name, time in rows.items():
        base = rows["bare jit(grad)" if "backward" in name or "grad" in name else "bare jit"]
        print(f"  {name:<27} {time:10.1f} us   {time / base:6.2f}")
    return 0


def _time(run: Callable[[], Any]) -> float:
    """Returns the shortest time of a call in microseconds, with the work of the device."""

    def wait() -> None:
        jax.block_until_ready(jax.tree.leaves(run()))

    wait()
    timer = timeit.Timer(wait)
    number = max(1, int(0.05 / max(timer.timeit(1), 1e-6)))
    return min(timer.repeat(_REPEATS, number)) / number * 1e6


def _unbox(args: Any) -> list[Any]:
    return [value.detach().array if isinstance(value, Tensor) else value for value in args]


def _detach(args: Any) -> list[Any]:
    return [value.detach() if isinstance(value, Tensor) else value for value in args]


def _sum(results: Any) -> Any:
    floats = [leaf for leaf in jax.tree.leaves(results) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return sum(leaf.sum().real for leaf in floats)


def _run_backward(op: OpOverload, call: Call) -> list[Any]:
    leaves = [
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value
        for value in call.args
    ]
    results = op(*leaves, **call.kwargs)
    total: Any = _sum_tensors(results)
    total.backward()
    return [leaf.grad for leaf in leaves if isinstance(leaf, Tensor) and leaf.grad is not None]


def _sum_tensors(results: Any) -> Any:
    flat = results if isinstance(results, (list, tuple)) else [results]
    return sum(result.sum() for result in flat if isinstance(result, Tensor) and result.requires_grad)
