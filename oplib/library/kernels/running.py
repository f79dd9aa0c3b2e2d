"""Execution of an op's kernel of any kind: at once, or under a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_types import find_varying
from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Results, Structure
from oplib.library.batching_and_sharding.varying import is_inside_shard_map, vary
from oplib.library.op_records.record import Function, Record
from oplib.protocols import Values

from .array_kernel import run_array_kernel, trace_array_kernel, type_results
from .host_kernel import call_back_host_kernel, run_host_kernel
from .kernel_choice import choose_kernel, find_platform_kernels, needs_default
from .tensor_kernel import run_tensor_kernel

Run = Callable[[Record, Function, Layout, Sequence[Any]], Results]

_NOW: dict[str, Run] = {"array": run_array_kernel, "host": run_host_kernel}
_TRACED: dict[str, Run] = {"array": trace_array_kernel, "host": call_back_host_kernel}


def run_kernel(record: Record, layout: Layout, arrays: Sequence[Any], device: Any = None) -> Results:
    """Runs the kernel of a record at once, as plain Python on concrete arrays, and splits its results."""
    kernel = choose_kernel(record, arrays, device)
    structure, flat = _NOW.get(record.kind, run_tensor_kernel)(record, kernel, layout, arrays)
    return structure, type_results(record, layout, arrays, flat)


def trace_kernel(record: Record, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs the kernel of a record under a trace; if the platform matters, lowering chooses the kernel."""
    run = _TRACED.get(record.kind, run_tensor_kernel)
    if record.sole_kernel is not None:
        return run(record, record.sole_kernel, layout, arrays)
    if record.kind == "host" or needs_default(record, arrays):
        return run(record, choose_kernel(record, arrays), layout, arrays)
    return _trace_for_platforms(record, run, layout, arrays)


def _trace_for_platforms(record: Record, run: Run, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Traces every kernel; lowering keeps those for its platforms."""
    traced: dict[str, Results] = {}
    due: dict[int, frozenset[Any]] = {}

    def branch(slot: str, kernel: Function) -> Callable[..., Values]:
        def call(*values: Any) -> Values:
            try:
                structure, flat = run(record, kernel, layout, values)
            except Exception as error:
                error.add_note(f"This is the kernel for '{slot}'; kernels are traced on every platform.")
                raise
            typed = type_results(record, layout, values, flat)
            # One kernel may return a constant where another computes: both results vary over the same axes.
            results = [vary(value, due.get(index, ())) for index, value in enumerate(typed)]
            traced[slot] = structure, results
            _compare(record, traced, slot)
            return tuple(results)

        return call

    branches = {
        platform: branch(platform, kernel) for platform, kernel in find_platform_kernels(record).items()
    }
    default = record.kernels.get("default")
    if is_inside_shard_map():
        kernels = [*branches.values(), *([] if default is None else [branch("default", default)])]
        due.update(enumerate(_join_axes(kernels, arrays)))
    flat = jax.lax.platform_dependent(
        *arrays, default=None if default is None else branch("default", default), **branches
    )
    return next(iter(traced.values()))[0], list(flat)


def _join_axes(kernels: Sequence[Function], arrays: Sequence[Any]) -> list[frozenset[Any]]:
    """Returns for each result the mesh axes over which that of any kernel varies."""
    avals = [jax.jit(kernel).trace(*arrays).jaxpr.out_avals for kernel in kernels]
    return [frozenset[Any]().union(*map(find_varying, types)) for types in zip(*avals, strict=False)]


def _compare(record: Record, traced: dict[str, Results], slot: str) -> None:
    """Raises ResultError if the kernel of a platform returns other shapes than the first kernel."""
    first = next(iter(traced))
    if _describe_results(traced[first]) != _describe_results(traced[slot]):
        raise ResultError(
            f"{record.name}: the kernels for '{first}' and '{slot}' return different results. Got "
            f"{describe(traced[first][1])} and {describe(traced[slot][1])}. An op must have the "
            "same shapes, dtypes and numbers on every platform: correct one of them."
        )


def _describe_results(results: Results) -> tuple[Structure, list[Any]]:
    structure, flat = results
    return structure, [(value.shape, value.dtype) for value in flat]
