"""Forward mode: a call on Tensors in an open dual level computes the tangents of its results too.

If the op has a jvp rule and the call is not recorded, the rule gives results and tangents. Otherwise the call
runs as without tangents. Then one array function computes the tangents; it is compiled for each op and
pattern of tangents. It uses the same rule as JAX's transformations: the jvp rule, the transposed backward
formula, or JAX's derivative of the kernel. The tape records it as an op, so tangents have a history.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.masks import mask_given
from oplib.autograd.recording.formula_node import call_without_tangents, keep_tangents
from oplib.autograd.tangents import (
    find_tangents,
    push_tangents,
    run_without_tangents,
    set_tangent,
)
from oplib.errors import MissingRuleError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.recording import box_results, read_arrays
from oplib.library.arguments.structure import Structure
from oplib.library.derivatives.jvp_rule import Pushed
from oplib.library.jax_primitives.primitive import Carrier
from oplib.library.jax_primitives.specialization import Specialization
from oplib.library.kernels.tensor_kernel import find_tensors
from oplib.library.op_objects.observers import read_run, run_observed
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record, Tag
from oplib.modes import modes
from oplib.tensor import Tensor, box

from .derived_view import gives_views
from .input_kind import take_numbers


class RecordedOp(Protocol):
    """The part of the dispatcher of an op that forward mode uses."""

    @property
    def record(self) -> Record:
        """The registration of the op."""
        ...

    @property
    def overload(self) -> OpOverload:
        """The op."""
        ...

    @property
    def carrier(self) -> Carrier:
        """The primitives of the op."""
        ...

    def specialize(self, layout: Layout) -> Specialization:
        """Returns the compiled functions of a layout."""
        ...

    def call_on_tensors(self, layout: Layout, flat: list[Any], values: list[Any]) -> Any:
        """Does one call with a Tensor among its bound arguments, without tangents."""
        ...


def call_in_dual_level(dispatcher: RecordedOp, layout: Layout, flat: list[Any], values: list[Any]) -> Any:
    """Does one call with a Tensor among its arguments, and computes the tangents of the results.

    Args:
        dispatcher: the dispatcher of the op.
        layout: the layout of the call.
        flat: the array arguments.
        values: one value for each argument of the schema.

    Raises:
        MissingRuleError: an argument has a tangent, and the op has no rule for it. An op that writes an
            argument cannot have one.
    """
    record = dispatcher.record
    tensors = [value if isinstance(value, Tensor) else None for value in flat]
    tangents = find_tangents(tensors)
    schema, is_constant = record.schema, record.derivative.constant is not None
    is_constant = is_constant or not (schema.returns or schema.is_mutable)
    if tangents is None or record.kind == "composite" or is_constant:
        return dispatcher.call_on_tensors(layout, flat, values)
    _require_rule(record, layout, tangents)
    if record.jvp is not None and not gives_views(record) and not _needs_history([*tensors, *tangents]):
        return _call_by_rule(dispatcher, layout, flat, values, tangents)
    operands = [value if isinstance(value, Tensor) else box(jnp.asarray(value)) for value in flat]
    result = run_without_tangents(dispatcher.call_on_tensors, layout, flat, values)
    outputs = find_tensors([result])
    pusher = dispatcher.specialize(layout).pusher(mask_given(tangents), dispatcher.carrier)
    push_tangents(partial(call_without_tangents, pusher), [*operands, *outputs], tangents, outputs)
    keep_tangents(tensors, outputs)
    return result


def _needs_history(tensors: Sequence[Tensor | None]) -> bool:
    """Tells whether the tape records a call with these tensors, and so runs it by itself."""
    is_on = modes.grad_enabled and not modes.inference
    return is_on and any(tensor is not None and tensor._requires_grad for tensor in tensors)


def _call_by_rule(
    dispatcher: RecordedOp,
    layout: Layout,
    flat: list[Any],
    values: list[Any],
    tangents: Sequence[Tensor | None],
) -> Any:
    """Runs the jvp rule instead of the kernel: it gives the results and their tangents."""
    record = dispatcher.record
    arrays = read_arrays(take_numbers(record, layout, flat))[1]
    moving = [tangent._storage.array for tangent in tangents if tangent is not None]
    push = dispatcher.specialize(layout).rule_runner(mask_given(tangents))
    outcome: list[Pushed] = []

    def run() -> tuple[Structure, Sequence[Any]]:
        outcome.append(push(arrays, moving))
        return outcome[0].structure, outcome[0].outputs

    structure, outputs = run_observed(dispatcher.overload, values, run, read_run)
    boxed = box_results(outputs)
    pushed = iter(outcome[0].tangents)
    for result in boxed:
        if has_gradient(result._storage.array.dtype):
            set_tangent(result, box(next(pushed)))
    return structure.arrange(boxed)


def _require_rule(record: Record, layout: Layout, tangents: Sequence[Tensor | None]) -> None:
    derivative = record.derivative
    if Tag.out not in record.tags and (
        record.is_transparent
        or record.jvp is not None
        or (derivative.backward is not None and not derivative.nonlinear)
    ):
        return
    index = next(index for index, tangent in enumerate(tangents) if tangent is not None)
    tangent: Any = tangents[index]
    raise MissingRuleError(
        f"{record.name}: Trying to use forward AD with {record.name} that does not support it"
        f"{_explain(record)}. Argument '{layout.find_argument(index)}' carries a tangent, "
        f"{describe(tangent)}. {_advise(record)}"
    )


def _explain(record: Record) -> str:
    if Tag.out in record.tags:
        return " because it is an out= function"
    if record.derivative.nonlinear:
        return ": its backward formula is declared nonlinear, so none can be derived from it by transposition"
    if record.derivative.missing is not None:
        return f": the derivative is missing, because {record.derivative.missing}"
    return ": it has neither a jvp rule nor a backward formula to derive one from"


def _advise(record: Record) -> str:
    if Tag.out in record.tags:
        return "Use the op without out=."
    return (
        f"Register a rule with oplib.library.register_jvp('{record.name}', rule), or give it "
        "unpack_dual(tensor).primal."
    )
