"""The steps after the forward of a Function: its ctx becomes the node of the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.gradient_representation import ARRAYS, is_array_class
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.autograd.recording.origins import note_origin
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.tensor import Tensor

from .context import FunctionCtx, check_saved
from .function_node import BackwardCFunction
from .jvp import push_tangents_through
from .outputs import attach_outputs
from .trees import NO_SPECS, PLAIN, flatten_values, list_values, pack_result

_RESERVED = frozenset(
    name
    for name in (*dir(TapeNode), "saved_tensors", "apply_jvp")
    if not name.startswith("__") and not hasattr(FunctionCtx, name)
)
"""Attributes that make a ctx a node. A user's forward must not set them."""

_PASSED: Any = dict.fromkeys(("to_save", "saved_for_forward", "dirty_tensors", "non_differentiable"), ())
"""Attributes of a ctx that are read here and emptied. They would hold outputs, which hold the ctx."""

_OWN_COUNT = 4
"""The attributes that each ctx gets before its forward. Most forwards add none, or ``to_save`` alone."""

_NOTED = {*FunctionCtx.__annotations__, *BackwardCFunction.__annotations__}
"""Attributes that a forward sets by the methods of its ctx, and that the tape notes before it."""


def box_arrays(result: Any) -> Any:
    """Returns the result of a forward with a Tensor for each array of JAX or numpy."""
    listed = list_values(result)
    leaves, specs = flatten_values(listed)
    boxed = [
        ARRAYS.box(jnp.asarray(leaf)) if is_array_class[type(leaf)] or isinstance(leaf, np.ndarray) else leaf
        for leaf in leaves
    ]
    return pack_result(boxed, len(listed), specs, type(result))


def finish_call(
    ctx: BackwardCFunction,
    result: Any,
    inputs: Sequence[Tensor],
    *,
    history: tuple[tuple[Edge | None, ...], int] | None = None,
    tangents: Sequence[Tensor | None] | None = None,
) -> Any:
    """Makes the ctx the node of the outputs, and returns these in the structure of the result.

    Args:
        ctx: the ctx of the call.
        result: what forward has returned.
        inputs: the Tensors among the arguments.
        history: the edges and the sequence number of the node; None if the call is not recorded.
        tangents: the tangents of ``inputs``; None if the call carries none.

    Raises:
        AutogradError: forward set an attribute that every ctx has, or broke a rule of ``mark_dirty``.
        GradientTypeError: a saved value is not a Tensor.
    """
    held, cls, to_save, specs = vars(ctx), ctx._forward_cls, ctx.to_save, NO_SPECS
    is_plain = len(held) == _OWN_COUNT + bool(to_save)
    is_noted = is_plain or _is_noted(ctx)
    several = isinstance(result, tuple)
    leaves: Sequence[Any] = result if several else (result,)
    ctx._output_count = count = len(leaves)
    if not PLAIN.issuperset(map(type, leaves)):
        result = box_arrays(result) if cls._is_users else result
        leaves = result if several else (result,)
        leaves, specs = flatten_values(leaves) if cls._takes_trees else (leaves, specs)
        ctx._output_specs = specs
    if history is not None:
        ctx.edges, ctx.sequence_nr = history
        if to_save or not is_noted:
            check_saved(to_save, "save_for_backward", in_graph=True)
            if cls._is_users:
                note_constants(ctx, (*inputs, *leaves), () if is_noted else held.values())
        note_origin(ctx, modes.state)
    outputs = attach_outputs(ctx, leaves, inputs, recording=history is not None, is_plain=is_plain)
    if not is_plain and ctx.output_grad_dtypes is not None:
        _check_grad_dtypes(ctx, outputs)
    if history is not None:
        ctx.has_one_slot = len(outputs) == 1
        if to_save:
            ctx._saved = tuple([None if value is None else SavedTensor(value, ctx) for value in to_save])
        if modes.state.creation_hooks:
            tell_creation(ctx)
    if tangents is not None:
        push_tangents_through(ctx, leaves, outputs, (inputs, tangents))
    if to_save or not is_plain:
        held.update(_PASSED)
    if specs or (several and result.__class__ is not tuple):
        return pack_result(outputs, count, specs, type(result))
    return tuple(outputs) if several else outputs[0]


def _check_grad_dtypes(ctx: BackwardCFunction, outputs: Sequence[Any]) -> None:
    """Checks the dtypes that ``set_output_grad_dtype`` got, and lets gradients of another dtype arrive."""
    due: Any = ctx.output_grad_dtypes
    if len(due) != len(outputs):
        raise AutogradError(
            f"{type(ctx).__name__}: set_output_grad_dtype takes a dtype or None for each result of forward. "
            f"Got {len(due)} for {len(outputs)}. Give one for each."
        )
    for slot, (dtype, output) in enumerate(zip(due, outputs, strict=True)):
        own = output._storage.spec.dtype if isinstance(output, Tensor) else None
        if dtype is not None and (own is None or not has_gradient(own)):
            raise AutogradError(
                f"{type(ctx).__name__}: set_output_grad_dtype got {dtype} for result {slot}, which has no "
                "gradient. Give None for it."
            )
        if dtype != own:
            ctx.free_slots |= {slot}


def _is_noted(ctx: BackwardCFunction) -> bool:
    """Returns whether forward has set only what the methods of its ctx set; refuses attributes of nodes."""
    held = vars(ctx)
    if not _RESERVED.isdisjoint(held):
        raise AutogradError(
            f"{type(ctx).__name__}: ctx.{min(_RESERVED.intersection(held))} was set in forward. A ctx is a "
            "node, and a node has an attribute of this name. Choose another name."
        )
    return _NOTED.issuperset(held)


def note_constants(ctx: BackwardCFunction, known: Sequence[Any], held: Iterable[Any]) -> None:
    """Notes on ctx whether it holds a value that has neither a history nor come through ``detach``.

    Args:
        ctx: the ctx, which forward has filled.
        known: the arguments and results, which are no such values.
        held: the attributes that forward has set.
    """
    for value in (*ctx.to_save, *held):
        if (
            isinstance(value, Tensor)
            and not (value._requires_grad or value._is_detached or id(value) in map(id, known))
            and has_gradient(value._storage.spec.dtype)
        ):
            ctx._keeps_constants = True
