"""The registered forward of an op: its results, and the values that its formula needs, in one run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.results import FORWARD
from oplib.library.arguments.structure import Results, make_structure
from oplib.library.kernels.array_kernel import make_strong, take_apart
from oplib.library.kernels.tensor_kernel import check_tensor_results
from oplib.library.kernels.tracing import any_traced, run_part
from oplib.library.objects.overload import OpOverload
from oplib.library.records.record import Record
from oplib.tensor import Tensor, box

from .formula import FormulaPlan
from .formula_context import SetupContext, read_context
from .setup import keep_arrays

Forwarded = tuple[FormulaPlan, tuple[Any, ...], tuple[Any, ...]]


def run_forward(
    overload: OpOverload, layout: Layout, arrays: Sequence[Any], *, wanted: Mask, due: Sequence[Any] = ()
) -> Forwarded:
    """Runs the forward of an op on arrays or tracers of one example, and plans the backward.

    A saved array that is an input or a result is known by its identity. Every other one is an intermediate.

    Args:
        overload: the op, which has a forward.
        layout: the layout of the call.
        arrays: the arrays of the call.
        wanted: for each of them, whether its gradient is needed.
        due: the shapes and dtypes of the kernel's results, if they are known.

    Returns:
        The plan, the results, and the intermediates.

    Raises:
        ResultError: the results are not those of the kernel.
    """
    record = overload.record
    ctx = SetupContext(tuple(layout.spread_flags(wanted)))
    structure, flat = _run(record, layout, ctx, arrays)
    outputs = tuple(map(make_strong, flat))
    _check_results(record, outputs, due)
    plan = FormulaPlan(overload, layout, structure, wanted=wanted, inputs=arrays, outputs=outputs)
    saved, notes = read_context(ctx, flat)
    extras = keep_arrays(plan, notes, saved, [*arrays, *flat])
    if extras:
        plan.extra_reads = tuple(range(len(arrays)))
        plan.extras = ArrayFunction(
            lambda *values: run_forward(overload, layout, values, wanted=wanted)[2], record.name
        )
    return plan, outputs, tuple(extras)


def _run(record: Record, layout: Layout, ctx: SetupContext, arrays: Sequence[Any]) -> Results:
    """Calls the user's function, and splits its results."""
    forward, boxed = record.derivative.forward, record.takes_tensors
    assert forward is not None
    args, kwargs = layout.split(layout.rebuild([box(value) for value in arrays] if boxed else arrays))
    call = partial(forward, ctx, *args, **kwargs)
    if not boxed:
        return run_part(
            lambda: take_apart(record, layout, call(), FORWARD),
            record.name,
            "forward",
            eager=not any_traced(arrays),
        )
    results = run_part(
        lambda: check_tensor_results(record, call(), FORWARD), record.name, "forward", eager=True
    )
    structure, tensors = make_structure(results, 0, lambda value: isinstance(value, Tensor))
    return structure, [tensor._storage.array for tensor in tensors]


def _check_results(record: Record, outputs: Sequence[Any], due: Sequence[Any]) -> None:
    got = [(value.shape, value.dtype) for value in outputs]
    if due and got != [(value.shape, value.dtype) for value in due]:
        raise ResultError(
            f"{record.name}: forward and the kernel return different results. Forward returned "
            f"{describe(list(outputs))}, the kernel {describe(list(due))}. Return the kernel's results from "
            "forward, and save the others on ctx."
        )
