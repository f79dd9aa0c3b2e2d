"""A registered jvp rule as a function of flat arrays for one example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.array_types import zeros_of
from oplib.autograd.array_functions.masks import map_given
from oplib.errors import AutogradError, describe
from oplib.library.arguments.layout import Layout, rebuild_tangent
from oplib.library.arguments.results import require_same_results
from oplib.library.arguments.structure import Structure, require_same_structure
from oplib.library.arguments.trees import is_none
from oplib.library.kernels.array_kernel import take_apart, type_results
from oplib.library.kernels.tracing import any_traced, run_part
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition
from oplib.protocols import Values
from oplib.tensor import box


class Pushed(NamedTuple):
    """The results of a jvp rule.

    Attributes:
        structure: the structure of the results.
        outputs: the flat results.
        tangents: one tangent for each differentiable output.
    """

    structure: Structure
    outputs: Values
    tangents: Values


def run_jvp_rule(
    record: Record,
    layout: Layout,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    *,
    due: tuple[Structure | None, Sequence[Any]],
) -> Pushed:
    """Runs the jvp rule.

    Args:
        record: the record of the op.
        layout: the layout of the call.
        inputs: the arrays of the call.
        tangents: for each array its tangent, or None if it is not differentiated.
        due: the structure of the kernel's results, and their shapes and dtypes, if they are known.

    Raises:
        ResultError: the results are not those of the kernel.
        AutogradError: the tangents do not fit the results.
    """
    outputs, pushed = call_jvp_rule(record, layout, inputs, tangents)
    structure, flat = take_apart(record, layout, outputs, "the jvp rule")
    rule = record.jvp
    assert rule is not None
    part, (tree, shapes) = f"the jvp rule at {find_definition(rule.function)}", due
    if tree is not None:
        require_same_structure(record.name, part, structure, tree)
    typed = type_results(record, layout, inputs, flat)
    require_same_results(record.name, part, typed, shapes)
    return Pushed(structure, typed, _flatten_tangents(record, structure, flat, pushed))


def call_jvp_rule(
    record: Record, layout: Layout, inputs: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, Any]:
    """Runs ``rule(primals, tangents) -> (outputs, output tangents)``.

    Args:
        record: the record of the op.
        layout: the layout of the call.
        inputs: the arrays of the call.
        tangents: for each array its tangent, or None if it is not differentiated.

    Returns:
        The pair that the rule returns.

    Raises:
        AutogradError: the rule returns no pair.
    """
    rule = record.jvp
    assert rule is not None
    if not rule.symbolic_zeros:
        tangents = [_fill(*pair, record=record) for pair in zip(tangents, inputs, strict=True)]
    if record.takes_tensors:
        inputs = list(map(box, inputs))
        tangents = map_given(box, tangents)
    primals = tuple(layout.schema.spread(layout.rebuild(inputs)))
    arranged = tuple(layout.schema.spread(layout.rebuild(tangents, rebuild_tangent)))
    answer = run_part(
        lambda: rule.function(primals, arranged),
        record.name,
        "jvp rule",
        eager=record.is_untraced or not any_traced(inputs),
    )
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise AutogradError(
            f"{record.name}: the jvp rule must give two returns, (outputs, tangents). Got "
            f"{describe(answer)}. Return the outputs, and tangents of the same structure."
        )
    return answer


def _fill(tangent: Any, value: Any, *, record: Record) -> Any:
    """Returns the tangent of an array, zeros for None; integers have JAX's float0, and as Tensors None."""
    if tangent is not None:
        return tangent
    if has_gradient(jax.typeof(value).dtype):
        return jnp.zeros_like(value)
    return None if record.takes_tensors else np.zeros(jnp.shape(value), jax.dtypes.float0)


def _flatten_tangents(record: Record, structure: Structure, outputs: Sequence[Any], tangents: Any) -> Values:
    """Returns one tangent per differentiable output; None becomes zeros."""
    is_one = len(structure.entries) == 1
    values = (tangents,) * len(structure.entries) if is_one or tangents is None else tangents
    try:
        spread = structure.spread(values, is_none)
    except (TypeError, ValueError) as error:
        raise AutogradError(
            f"{record.name}: the jvp rule returned tangents of another structure than its outputs. Got "
            f"{describe(tangents)} for {structure}, where * is an array: {error}. Return (outputs, tangents) "
            "of the same structure, None for a zero tangent."
        ) from None
    pairs = zip(outputs, spread, strict=True)
    avals = [(jax.typeof(output), tangent) for output, tangent in pairs]
    return tuple(_fit(record, tangent, aval) for aval, tangent in avals if has_gradient(aval.dtype))


def _fit(record: Record, tangent: Any, aval: Any) -> Any:
    if tangent is None or getattr(tangent, "dtype", None) == jax.dtypes.float0:
        return zeros_of(aval)
    array = jnp.asarray(tangent)
    if array.shape != aval.shape:
        raise AutogradError(
            f"{record.name}: the jvp rule returned a tangent that does not fit its output. Got "
            f"{describe(array)} for {describe(aval)}. Return a tangent of the output's shape."
        )
    return array if array.dtype == aval.dtype else array.astype(aval.dtype)
