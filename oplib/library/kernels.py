"""Running the kernel of an op, whatever kind it is of: now, or under a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .array_kernel import run_array_kernel, trace_array_kernel
from .host_kernel import call_back_host_kernel, run_host_kernel
from .kernel_choice import choose_kernel, missing_kernel, needs_default
from .layout import Layout
from .platforms import list_platforms
from .record import Function, Record
from .structure import Results, Structure
from .tensor_kernel import run_tensor_kernel

Run = Callable[[Record, Function, Layout, Sequence[Any]], Results]

_NOW: dict[str, Run] = {"array": run_array_kernel, "host": run_host_kernel}
_TRACED: dict[str, Run] = {"array": trace_array_kernel, "host": call_back_host_kernel}


def run_kernel(record: Record, layout: Layout, arrays: Sequence[Any], device: Any = None) -> Results:
    """Runs the kernel of a record now, as plain Python on concrete arrays, and takes its results apart."""
    kernel = choose_kernel(record, arrays, device)
    return _NOW.get(record.kind, run_tensor_kernel)(record, kernel, layout, arrays)


def trace_kernel(record: Record, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs the kernel of a record under a trace; which one, lowering decides where the platform matters."""
    run = _TRACED.get(record.kind, run_tensor_kernel)
    if record.sole_kernel is not None:
        return run(record, record.sole_kernel, layout, arrays)
    if record.kind == "host" or needs_default(record, arrays):
        return run(record, choose_kernel(record, arrays), layout, arrays)
    return _trace_for_platforms(record, run, layout, arrays)


def _trace_for_platforms(record: Record, run: Run, layout: Layout, arrays: Sequence[Any]) -> Results:
    if not record.kernels:
        raise missing_kernel(record, None)
    structures: list[Structure] = []

    def branch(kernel: Function) -> Callable[..., tuple[Any, ...]]:
        def call(*values: Any) -> tuple[Any, ...]:
            structure, flat = run(record, kernel, layout, values)
            structures.append(structure)
            return tuple(flat)

        return call

    slots = {slot: branch(kernel) for slot, kernel in record.kernels.items()}
    default = slots.pop("default", None)
    branches = {platform: call for slot, call in slots.items() for platform in list_platforms(slot)}
    flat = jax.lax.platform_dependent(*arrays, default=default, **branches)
    return structures[0], list(flat)
