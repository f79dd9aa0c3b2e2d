"""The steps after the forward of a Function: its ctx becomes the node of the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import has_gradient
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.gradient_representation import ARRAYS, is_array_class
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.recording.origins import note_origin
from oplib.autograd.saved.saved_tensor import SavedTensor
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.inference import refuse_saving

from .context import FunctionCtx, check_saved
from .function_call import FunctionCall
from .function_node import BackwardCFunction
from .jvp import push_tangents_through
from .outputs import attach_outputs
from .trees import NO_SPECS, Specs, flatten_values, pack_result

_RESERVED = frozenset(
    name
    for name in (*dir(TapeNode), "saved_tensors", "apply_jvp")
    if not name.startswith("__") and not hasattr(FunctionCtx, name)
)
"""Attributes that make a ctx a node. A user's forward must not set them."""

_PASSING = ("to_save", "saved_for_forward", "dirty_tensors", "non_differentiable")
"""Attributes of a ctx that are read here and dropped. They would hold outputs, which hold the ctx."""


def box_arrays(result: Any) -> Any:
    """Returns the result of a forward with a Tensor for each array of JAX or numpy."""
    if isinstance(result, Tensor):
        return result
    leaves, specs = flatten_values(result if isinstance(result, tuple) else (result,))
    if not any(is_array_class[type(leaf)] or isinstance(leaf, np.ndarray) for leaf in leaves):
        return result
    boxed = [
        ARRAYS.box(jnp.asarray(leaf)) if is_array_class[type(leaf)] or isinstance(leaf, np.ndarray) else leaf
        for leaf in leaves
    ]
    count = len(result) if isinstance(result, tuple) else 1
    return pack_result(boxed, count, specs, type(result))


def finish_call(ctx: BackwardCFunction, result: Any, call: FunctionCall) -> Any:
    """Makes the ctx the node of the outputs, and returns these in the structure of the result.

    Raises:
        AutogradError: forward set an attribute that every ctx has, or broke a rule of ``mark_dirty``.
        GradientTypeError: a saved value is not a Tensor.
    """
    held = vars(ctx)
    if not _RESERVED.isdisjoint(held):
        raise _refuse_reserved(ctx, min(_RESERVED.intersection(held)))
    several, count, specs, state = False, 1, NO_SPECS, modes.state
    if result.__class__ is Tensor:
        leaves = [result]
    else:
        result = box_arrays(result) if ctx._forward_cls._is_users else result
        several = isinstance(result, tuple)
        values: tuple[Any, ...] = result if several else (result,)
        count = len(values)
        leaves, specs = flatten_values(values) if ctx._forward_cls._takes_trees else (list(values), specs)
    _note_shape(ctx, call, count, specs)
    if call.recording:
        ctx.edges = tuple([gradient_edge(tensor) for tensor in call.inputs])
        ctx.sequence_nr = call.sequence_nr
        if ctx.to_save:
            _check_saved(ctx)
        if ctx._forward_cls._is_users:
            note_constants(ctx, (*call.inputs, *leaves))
        note_origin(ctx, state)
    outputs = attach_outputs(ctx, leaves, call.inputs, recording=call.recording)
    if call.recording:
        ctx.input_metadata = tuple(
            [output._storage.array.aval if isinstance(output, Tensor) else None for output in outputs]
        )
        if not ctx._materialize_non_diff_grads:
            pairs = zip(ctx.input_metadata, outputs, strict=True)
            ctx.input_metadata = tuple(
                [meta if meta and source._requires_grad else None for meta, source in pairs]
            )
        ctx._saved = tuple([None if value is None else SavedTensor(value, ctx) for value in ctx.to_save])
        if state.creation_hooks:
            tell_creation(ctx)
    if call.tangents is not None:
        push_tangents_through(ctx, leaves, outputs, call)
    for name in _PASSING:
        held.pop(name, None)
    return outputs[0] if not several and not specs else pack_result(outputs, count, specs, type(result))


def _refuse_reserved(ctx: BackwardCFunction, name: str) -> AutogradError:
    return AutogradError(
        f"{type(ctx).__name__}: ctx.{name} was set in forward. A ctx is a node, and a node has an "
        "attribute of this name. Choose another name."
    )


def note_constants(ctx: BackwardCFunction, known: Sequence[Any]) -> None:
    """Notes on ctx whether it holds a value that has neither a history nor come through ``detach``.

    Args:
        ctx: the ctx, which forward has filled.
        known: the arguments and results, which are no such values.
    """
    for value in [*ctx.to_save, *vars(ctx).values()]:
        if isinstance(value, Tensor) and not (value._requires_grad or value._is_detached):
            is_new = not any(value is own for own in known)
            if is_new and has_gradient(value._storage.spec.dtype):
                ctx._keeps_constants = True


def _note_shape(ctx: BackwardCFunction, call: FunctionCall, output_count: int, output_specs: Specs) -> None:
    """Notes how the arguments and results of a call are laid out. Its class has what most calls have."""
    ctx._tensor_flags = call.flags
    if call.argument_count != 1:
        ctx._argument_count = call.argument_count
    if call.specs:
        ctx._argument_specs = call.specs
    if output_count != 1:
        ctx._output_count = output_count
    if output_specs:
        ctx._output_specs = output_specs


def _check_saved(ctx: BackwardCFunction) -> None:
    check_saved(ctx.to_save, "save_for_backward")
    for tensor in ctx.to_save:
        if tensor is not None and tensor._storage.is_inference:
            refuse_saving(tensor, "save_for_backward")
