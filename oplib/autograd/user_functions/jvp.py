"""Forward mode through a user's Function: its ``jvp`` computes the tangents of the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.tangents import check_tangent, find_tangent, run_without_tangents, set_tangent
from oplib.errors import AutogradError, describe
from oplib.hooks import require_parameters
from oplib.tensor import Tensor, box

from .function_node import BackwardCFunction
from .trees import list_values

Operands = tuple[Sequence[Tensor], Sequence[Tensor | None]]
"""The Tensors among the arguments of a call, and the tangent of each, or None."""


def push_tangents_through(
    ctx: BackwardCFunction, leaves: Sequence[Any], outputs: Sequence[Any], operands: Operands
) -> None:
    """Calls the user's jvp, and sets the tangents of the outputs.

    Raises:
        MissingRuleError: the Function has no jvp.
        AutogradError: jvp returned a wrong number of tangents, or a tangent does not fit its output.
    """
    versions = {id(tangent): tangent._version for tangent in operands[1] if tangent is not None}
    tangents = call_jvp(ctx, *operands)
    dirty = {*map(id, ctx.dirty_tensors)}
    constant = {*map(id, ctx.non_differentiable)}
    for index, tangent in enumerate(tangents):
        leaf, output = leaves[index], outputs[index]
        if isinstance(output, Tensor):
            marked = id(leaf) in constant or not has_gradient(output._storage.array.dtype)
            check_pushed(ctx, index, tangent, is_constant=marked)
            if id(leaf) in dirty:
                _check_written(ctx, index, find_tangent(output), tangent, versions)
            elif tangent is not None:
                _check_view(ctx, output, tangent, operands)
            if tangent is not None:
                check_tangent(output, tangent)
                set_tangent(output, tangent)


def call_jvp(
    ctx: BackwardCFunction, inputs: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> list[Any]:
    """Calls the jvp. Its ``saved_tensors`` are those of ``save_for_forward``.

    Args:
        ctx: the ctx after forward.
        inputs: the Tensors among the arguments.
        tangents: the tangent of each, or None.

    Returns:
        A tangent or None for each flat result.

    Raises:
        AutogradError: jvp returned a wrong number of tangents.
    """
    filled = [_fill(ctx, tensor, tangent) for tensor, tangent in zip(inputs, tangents, strict=True)]
    given, jvp = ctx._arrange(filled), ctx._forward_cls.jvp
    ctx._saved_for_jvp = ctx.saved_for_forward
    try:
        results = run_without_tangents(jvp, ctx, *given)
    except TypeError:
        names = [f"tangent_{position}" for position in range(len(given))]
        require_parameters(jvp, f"{ctx._forward_cls.__name__}: its jvp", "ctx", *names)
        raise
    finally:
        del ctx._saved_for_jvp
    listed = list_values(results)
    if len(listed) != ctx._output_count:
        raise AutogradError(
            f"{ctx.name()}: its jvp returned an invalid number of forward gradients. Got {len(listed)}, "
            f"expected {ctx._output_count}, one for each result of forward. Return None for a result without."
        )
    return _flatten(ctx, listed)


def _fill(ctx: BackwardCFunction, tensor: Tensor, tangent: Tensor | None) -> Tensor | None:
    array = tensor._storage.array
    if tangent is not None or not ctx.materialize_grads or not has_gradient(array.dtype):
        return tangent
    return box(jnp.zeros_like(array))


def _flatten(ctx: BackwardCFunction, tangents: Sequence[Any]) -> list[Any]:
    """Flattens the results of jvp by the structure of the outputs. None may stand for a whole container."""
    leaves: list[Any] = []
    for position, value in enumerate(tangents):
        spec = ctx._output_specs.get(position)
        if spec is None:
            leaves.append(value)
        else:
            leaves.extend([None] * spec.num_leaves if value is None else spec.flatten_up_to(value))
    return leaves


def check_pushed(ctx: BackwardCFunction, index: int, tangent: Any, *, is_constant: bool) -> None:
    """Raises if a result of jvp is no tangent of the output at this position."""
    name = ctx.name()
    if tangent is None:
        return
    if not isinstance(tangent, Tensor):
        raise AutogradError(
            f"{name}: expected Variable or None (a Tensor or None) from jvp for grad output {index}. Got "
            f"{type(tangent).__name__}. Return a Tensor; Tensor.from_array makes one of an array."
        )
    if is_constant:
        raise AutogradError(
            f"{name}: its jvp returned a gradient at position {index}, but the corresponding forward output "
            f"is not a differentiable Tensor. Got {describe(tangent)}. Return None there."
        )


def _check_written(
    ctx: BackwardCFunction, index: int, held: Tensor | None, tangent: Tensor | None, versions: dict[int, int]
) -> None:
    """Raises unless the tangent of a written input was written too, and returned."""
    if held is None or tangent is None:
        return
    advice = "Write into the tangent in jvp and return it."
    if held._version == versions.get(id(held)):
        raise AutogradError(
            f"{ctx.name()}: an inplace custom Function is not modifying the forward mode gradients inplace. "
            f"Got an unchanged version for the input at output {index}. {advice}"
        )
    if tangent is not held:
        raise AutogradError(
            f"{ctx.name()}: an inplace custom Function is not returning the forward mode gradients as-is. "
            f"Got another Tensor for the input at output {index}. {advice}"
        )


def _check_view(ctx: BackwardCFunction, output: Tensor, tangent: Tensor, operands: Operands) -> None:
    """Raises unless the tangent of a view of an input is a view of the tangent of this input.

    A later write into one of them must reach the other's tangent.
    """
    root = output._root
    if root is None:
        return
    for tensor, source in zip(*operands, strict=True):
        if source is None or root is not _root_of(tensor):
            continue
        if tangent._root is None:
            problem = "is not returning a view"
        elif tangent._root is not _root_of(source):
            problem = "is returning a view of another Tensor than the given tangent of this input"
        else:
            return
        raise AutogradError(
            f"{ctx.name()}: a custom Function's forward is returning a view (or an input as-is) but the jvp "
            f"{problem}. Got {describe(tangent._storage.spec)}. Apply the same view to the tangent."
        )


def _root_of(tensor: Tensor) -> Tensor:
    return tensor if tensor._root is None else tensor._root
