"""The varying mesh axes of an op's results inside ``shard_map``.

They are those that JAX gives the results when it traces the kernel. JAX does not know what a callback or a
foreign call reads, and lets its results vary over no axis. So the results of such a kernel vary over all axes
over which an operand varies, unless the op says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_types import find_varying
from oplib.errors import ResultError
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Results, Structure
from oplib.library.batching_and_sharding.bodies import OPAQUE, calls_any
from oplib.library.batching_and_sharding.placement import place_call
from oplib.library.batching_and_sharding.varying import describe_axes, join_axes, vary
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition

from .fake_kernel import declare_varying

Axes = frozenset[Any]


def run_typed(run: Callable[..., Results], record: Record, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs a kernel under the trace of a ``shard_map``.

    Args:
        run: the kernel, on flat arrays.
        record: the record of the op.
        layout: the layout of the call.
        arrays: the arrays of the call, for one example.

    Raises:
        ResultError: the fake kernel declares other varying axes than those of the results.
    """
    structure, flat = run(*arrays)
    if not join_axes(arrays):  # nothing varies, or check_vma is off
        return structure, flat
    declared = [None] * len(flat) if record.fake is None else declare_varying(record, layout, arrays)
    if not calls_any(jax.make_jaxpr(run)(*arrays), OPAQUE):
        _check_declared(record, declared, flat)
        return structure, flat
    allowed = _find_opaque(record, layout, structure, arrays, flat)
    pairs = zip(flat, declared, allowed, strict=True)
    typed = [vary(value, axes if own is None else own & axes) for value, own, axes in pairs]
    _check_declared(record, declared, typed)
    return structure, tuple(typed)


def _find_opaque(
    record: Record, layout: Layout, structure: Structure, arrays: Sequence[Any], flat: Sequence[Any]
) -> list[Axes]:
    """Returns the axes over which the results of an opaque kernel vary, by its sharding rule if any."""
    if record.sharding is None:
        return [join_axes(arrays)] * len(flat)
    placement = place_call(record.sharding, layout, (), structure, shapes=(arrays, flat))
    return [
        join_axes(arrays[source] for source in placement.list_sources(index)) for index in range(len(flat))
    ]


def _check_declared(record: Record, declared: Sequence[Axes | None], flat: Sequence[Any]) -> None:
    for index, (due, value) in enumerate(zip(declared, flat, strict=True)):
        varying = find_varying(jax.typeof(value))
        if due is not None and due != varying:
            raise ResultError(
                f"{record.name}: the fake kernel contradicts the kernel on varying mesh axes. Result {index} "
                f"varies over {describe_axes(varying)}, and the fake kernel at "
                f"{find_definition(record.fake)} declares {describe_axes(due)}. Correct its "
                "manual_axis_type, or leave it out."
            )
