"""A registered jvp rule as a function of flat arrays for one example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.errors import AutogradError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.kernels.tracing import any_traced, run_part
from oplib.library.records.record import Record
from oplib.tensor import box


def run_jvp_rule(
    record: Record, layout: Layout, inputs: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Runs ``rule(primals, tangents) -> (outputs, output tangents)``, and returns the output tangents.

    Args:
        record: the record of the op.
        layout: the layout of the call.
        inputs: the arrays of the call.
        tangents: for each array its tangent, or None.

    Returns:
        One tangent for each differentiable output.
    """
    rule = record.jvp
    assert rule is not None
    if record.takes_tensors:
        inputs = [box(value) for value in inputs]
        tangents = [None if tangent is None else box(tangent) for tangent in tangents]
    primals = tuple(layout.rebuild(inputs))
    answer = run_part(
        lambda: rule(primals, tuple(layout.rebuild_tangents(tangents))),
        record.name,
        "jvp rule",
        eager=record.takes_tensors or not any_traced(inputs),
    )
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise AutogradError(
            f"{record.name}: the jvp rule must give two returns, (outputs, tangents). Got "
            f"{describe(answer)}. Return the outputs, and tangents of the same structure."
        )
    return _flatten_tangents(record, *answer)


def _flatten_tangents(record: Record, outputs: Any, tangents: Any) -> tuple[Any, ...]:
    """Returns one tangent per differentiable output; None becomes zeros."""
    leaves = jax.tree_util.tree_leaves(outputs)
    given = jax.tree_util.tree_leaves(tangents, is_leaf=lambda value: value is None)
    if len(leaves) != len(given):
        raise AutogradError(
            f"{record.name}: the jvp rule returned {len(given)} tangents for {len(leaves)} outputs. "
            f"Return (outputs, tangents) of the same structure, None for a zero tangent."
        )
    pairs = [(leaf, tangent) for leaf, tangent in zip(leaves, given, strict=True) if _is_array(leaf)]
    return tuple(
        _fit(record, tangent, jax.typeof(leaf))
        for leaf, tangent in pairs
        if has_gradient(jax.typeof(leaf).dtype)
    )


def _is_array(value: Any) -> bool:
    """Tells whether an output is an array; a number among the outputs has no tangent."""
    return not isinstance(value, (bool, int, float, complex))


def _fit(record: Record, tangent: Any, aval: Any) -> Any:
    if tangent is None:
        return jnp.zeros(aval.shape, aval.dtype)
    array = jnp.asarray(tangent)
    if array.shape != aval.shape:
        raise AutogradError(
            f"{record.name}: the jvp rule returned a tangent that does not fit its output. Got "
            f"{describe(array)} for {describe(aval)}. Return a tangent of the output's shape."
        )
    return array.astype(aval.dtype)
