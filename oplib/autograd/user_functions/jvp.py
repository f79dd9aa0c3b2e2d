"""Forward mode through a user's Function: its ``jvp`` computes the tangents of the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.tangents import check_tangent, find_tangent, run_without_tangents, set_tangent
from oplib.errors import AutogradError, describe
from oplib.tensor import Tensor, box

from .function_call import FunctionCall
from .node import BackwardCFunction
from .trees import unflatten_values


def push_tangents_through(
    ctx: BackwardCFunction, leaves: Sequence[Any], outputs: Sequence[Any], call: FunctionCall
) -> None:
    """Calls the user's jvp, and sets the tangents of the outputs.

    Args:
        ctx: the ctx of the call.
        leaves: the flat results of forward.
        outputs: the Tensors made of them.
        call: the call, with a tangent for at least one input.

    Raises:
        MissingRuleError: the Function has no jvp.
        AutogradError: jvp returned a wrong number of tangents, or a tangent does not fit its output.
    """
    assert call.tangents is not None
    results = _call_jvp(ctx, _arrange(ctx, call.inputs, call.tangents))
    given = results if isinstance(results, tuple) else (results,)
    if len(given) != ctx._output_count:
        raise AutogradError(
            f"{ctx.name()}: its jvp returned an invalid number of forward gradients. Got {len(given)}, "
            f"expected {ctx._output_count}, one for each result of forward. Return None for a result without."
        )
    dirty = {id(tensor) for tensor in ctx.dirty_tensors}
    constant = {id(tensor) for tensor in ctx.non_differentiable}
    for place, tangent in enumerate(_flatten(ctx, given)):
        leaf, output = leaves[place], outputs[place]
        if isinstance(output, Tensor):
            marked = id(leaf) in constant or not has_gradient(output._storage.array.dtype)
            _set(ctx, place, output, tangent, is_constant=marked, is_dirty=id(leaf) in dirty)


def _call_jvp(ctx: BackwardCFunction, tangents: Sequence[Any]) -> Any:
    """Calls the jvp. Its ``saved_tensors`` are those of ``save_for_forward``."""
    ctx._saved_for_jvp = ctx.saved_for_forward
    try:
        return run_without_tangents(ctx._forward_cls.jvp, ctx, *tangents)
    finally:
        del ctx._saved_for_jvp


def _arrange(
    ctx: BackwardCFunction, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> tuple[Any, ...]:
    """Puts the tangents at the places of the arguments."""
    filled = iter([_fill(ctx, tensor, tangent) for tensor, tangent in zip(inputs, tangents, strict=True)])
    leaves = [next(filled) if flag else None for flag in ctx._tensor_flags]
    return unflatten_values(leaves, ctx._argument_count, ctx._argument_specs)


def _fill(ctx: BackwardCFunction, tensor: Tensor, tangent: Tensor | None) -> Tensor | None:
    array = tensor._storage.array
    if tangent is not None or not ctx.materialize_grads or not has_gradient(array.dtype):
        return tangent
    return box(jnp.zeros_like(array))


def _flatten(ctx: BackwardCFunction, given: Sequence[Any]) -> list[Any]:
    """Flattens the results of jvp by the structure of the outputs. None may stand for a whole container."""
    leaves: list[Any] = []
    for position, value in enumerate(given):
        spec = ctx._output_specs.get(position)
        if spec is None:
            leaves.append(value)
        else:
            leaves.extend([None] * spec.num_leaves if value is None else spec.flatten_up_to(value))
    return leaves


def _set(
    ctx: BackwardCFunction, place: int, output: Tensor, tangent: Any, *, is_constant: bool, is_dirty: bool
) -> None:
    name = ctx.name()
    if tangent is None:
        return
    if not isinstance(tangent, Tensor):
        raise AutogradError(
            f"{name}: expected Variable or None (a Tensor or None) from jvp for grad output {place}. Got "
            f"{type(tangent).__name__}. Return a Tensor; Tensor.from_array makes one of an array."
        )
    if is_constant:
        raise AutogradError(
            f"{name}: its jvp returned a gradient at position {place}, but the corresponding forward output "
            f"is not a differentiable Tensor. Got {describe(tangent._storage.array)}. Return None there."
        )
    held = find_tangent(output)
    if is_dirty and held is not None and tangent is not held:
        raise AutogradError(
            f"{name}: an inplace custom Function is not returning the forward mode gradients as-is. Got "
            f"another Tensor for the input at output {place}. Write into the tangent in jvp and return it."
        )
    check_tangent(output, tangent)
    set_tangent(output, tangent)
