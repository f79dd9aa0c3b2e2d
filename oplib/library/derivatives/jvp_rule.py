"""A registered jvp rule as a function of flat arrays for one example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.concreteness import VALUE_ERRORS
from oplib.errors import AutogradError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.kernels.tracing import any_traced, run_part
from oplib.library.records.record import Record
from oplib.tensor import box

from .linearity import find_nonlinear


def run_jvp_rule(
    record: Record, layout: Layout, inputs: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Any, ...]:
    """Runs the jvp rule, and returns one tangent for each differentiable output.

    The arguments are those of :func:`call_jvp_rule`.
    """
    return _flatten_tangents(record, *call_jvp_rule(record, layout, inputs, tangents))


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
        inputs = [box(value) for value in inputs]
        tangents = [None if tangent is None else box(tangent) for tangent in tangents]
    primals = tuple(layout.schema.spread(layout.rebuild(inputs)))
    arranged = tuple(layout.schema.spread(layout.rebuild_tangents(tangents)))
    answer = run_part(
        lambda: rule.function(primals, arranged),
        record.name,
        "jvp rule",
        eager=record.takes_tensors or not any_traced(inputs),
    )
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise AutogradError(
            f"{record.name}: the jvp rule must give two returns, (outputs, tangents). Got "
            f"{describe(answer)}. Return the outputs, and tangents of the same structure."
        )
    return answer


def check_jvp_rule(
    record: Record,
    layout: Layout,
    inputs: Sequence[Any],
    tangents: Sequence[Any],
    *,
    checked: set[Any],
) -> None:
    """Raises unless the rule is linear in the tangents, once per signature; a rule that reads values passes.

    Args:
        record: the record of the op.
        layout: the layout of the call.
        inputs: the arrays of the call.
        tangents: for each array its tangent, or None if it is not differentiated.
        checked: the signatures that have passed; this function adds to it.

    Raises:
        AutogradError: it is not linear.
    """
    # A rule gets zeros for a tangent that is missing. They are no part of the rule, so they move too.
    fills = record.jvp is not None and not record.jvp.symbolic_zeros
    moves = tuple(
        [
            tangent is not None or (fills and has_gradient(jax.typeof(value).dtype))
            for tangent, value in zip(tangents, inputs, strict=True)
        ]
    )
    signature = record.version, moves, tuple(map(jax.typeof, inputs))
    is_trusted = record.jvp is None or record.jvp.nonlinear or is_uncompiled()
    if is_trusted or signature in checked:
        return

    def push(inputs: Any, moving: Any) -> tuple[Any, ...]:
        rest = iter(moving)
        return run_jvp_rule(record, layout, inputs, [next(rest) if move else None for move in moves])

    moving = [
        jax.typeof(value if tangent is None else tangent)
        for tangent, value, move in zip(tangents, inputs, moves, strict=True)
        if move
    ]
    try:
        problem = find_nonlinear(push, inputs, moving, trusts_opaque=True)
    except VALUE_ERRORS:
        problem = None
    if problem is not None:
        index, why = problem
        raise AutogradError(
            f"{record.name}: the jvp rule is not linear in its tangents. The tangent of output {index} is "
            f"not shown to be linear in those of the inputs: {why}. Compute it by sums, and by products with "
            "primals, or declare the rule with register_jvp(..., nonlinear=True)."
        )
    checked.add(signature)


def _fill(tangent: Any, value: Any, *, record: Record) -> Any:
    """Returns the tangent of an array, zeros for None; integers have JAX's float0, and as Tensors None."""
    if tangent is not None:
        return tangent
    if has_gradient(jax.typeof(value).dtype):
        return jnp.zeros_like(value)
    return None if record.takes_tensors else np.zeros(jnp.shape(value), jax.dtypes.float0)


def _flatten_tangents(record: Record, outputs: Any, tangents: Any) -> tuple[Any, ...]:
    """Returns one tangent per differentiable output; None becomes zeros."""
    leaves = jax.tree_util.tree_leaves(outputs)
    tangent_leaves = jax.tree_util.tree_leaves(tangents, is_leaf=lambda value: value is None)
    if len(leaves) != len(tangent_leaves):
        raise AutogradError(
            f"{record.name}: the jvp rule returned {len(tangent_leaves)} tangents for {len(leaves)} outputs. "
            f"Return (outputs, tangents) of the same structure, None for a zero tangent."
        )
    pairs = [(leaf, tangent) for leaf, tangent in zip(leaves, tangent_leaves, strict=True) if _is_array(leaf)]
    return tuple(
        _fit(record, tangent, jax.typeof(leaf))
        for leaf, tangent in pairs
        if has_gradient(jax.typeof(leaf).dtype)
    )


def _is_array(value: Any) -> bool:
    """Tells whether an output is an array; a number among the outputs has no tangent."""
    return not isinstance(value, (bool, int, float, complex))


def _fit(record: Record, tangent: Any, aval: Any) -> Any:
    if tangent is None or getattr(tangent, "dtype", None) == jax.dtypes.float0:
        return jnp.zeros(aval.shape, aval.dtype)
    array = jnp.asarray(tangent)
    if array.shape != aval.shape:
        raise AutogradError(
            f"{record.name}: the jvp rule returned a tangent that does not fit its output. Got "
            f"{describe(array)} for {describe(aval)}. Return a tangent of the output's shape."
        )
    return array.astype(aval.dtype)
