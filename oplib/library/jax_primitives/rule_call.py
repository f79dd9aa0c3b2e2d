"""Calls that are differentiated by a jvp rule, whose results are those of the call too.

The rule runs in the trace that differentiates the call. So what it computes for both value and tangent runs
once: a loop is one loop, and a host is asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import Mask, has_gradient
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.library.batching_and_sharding.levels import Levels
from oplib.library.batching_and_sharding.varying import fit_varying
from oplib.library.derivatives.jvp_rule import Pushed, run_jvp_rule
from oplib.library.op_records.record import Record

from .bound_call import BoundCall


def takes_results_of_rule(record: Record) -> bool:
    """Tells whether the jvp rule gives the results where a call is differentiated.

    Beside a backward formula it does not. JAX asks for the derivative before it chooses forward or reverse
    mode, and reverse mode uses the formula.
    """
    derivative = record.derivative
    return record.jvp is not None and derivative.backward is None and derivative.constant is None


def push_example(call: BoundCall, wanted: Mask, inputs: Sequence[Any], tangents: Sequence[Any]) -> Pushed:
    """Runs the jvp rule on one example.

    Args:
        call: the bound call.
        wanted: for each input, whether it has a tangent.
        inputs: the arrays of the call.
        tangents: the tangents of the wanted inputs.
    """
    moving = spread(tangents, wanted)
    return run_jvp_rule(call.record, call.layout, inputs, moving, due=call.find_due(inputs))


def push_call(
    call: BoundCall, levels: Levels, wanted: Mask, inputs: Sequence[Any], tangents: Sequence[Any]
) -> Pushed:
    """Runs the jvp rule in the current trace, mapped over levels of vmap.

    The arguments are those of :func:`push_example`, batched according to the levels.
    """

    def push(inputs: Any, tangents: Any) -> Pushed:
        return push_example(call, wanted, inputs, tangents)

    for level in levels:
        own = tuple(pick_true(level.axes, wanted))
        push = level.map(push, (level.axes, own))
    with jax.named_scope(call.record.name):
        structure, outputs, pushed = push(tuple(inputs), tuple(tangents))
        outputs = call.fit(outputs, levels, inputs, "jvp rule")
        types = [jax.typeof(value).to_tangent_aval() for value in outputs if has_gradient(value.dtype)]
        fitted = fit_varying(pushed, types, op=str(call), part="jvp rule")
    return Pushed(structure, outputs, tuple(fitted))
