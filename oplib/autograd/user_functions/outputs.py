"""Outputs of a Function: the tensors that its forward returns get their history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax.numpy as jnp

from oplib.autograd.grad_mode import recording_off
from oplib.autograd.recording.in_place import refuse_leaf
from oplib.autograd.recording.rebase import rebase_history
from oplib.autograd.recording.view import make_view
from oplib.errors import AutogradError, describe
from oplib.tensor import Tensor
from oplib.tensor.views import Creation, Reshape, note_view
from oplib.tensor.views.view_storage import refuse_shared_items
from oplib.tracebacks import warn_user

from .function_node import BackwardCFunction


def attach_outputs(
    ctx: BackwardCFunction,
    leaves: Sequence[Any],
    inputs: Sequence[Tensor],
    *,
    recording: bool,
    is_plain: bool,
) -> Sequence[Any]:
    """Gives each returned tensor its history. Other values pass unchanged. ``is_plain``: forward marked none.

    A written input is returned as the same object with a new history. An input that is returned unchanged,
    or that has a history and gets no new one, becomes a new tensor on its storage, because it would lose its
    own history. Other tensors are used as they are.

    Raises:
        AutogradError: a leaf that requires grad was written, or a view whose history may not change; a
            written input is not returned, or a written view is not the only result.
    """
    is_new = recording and (is_plain or not (ctx.dirty_tensors or ctx.non_differentiable))
    if is_new:  # most results are different tensors that forward has made, and no views
        for leaf in leaves:
            if leaf.__class__ is not Tensor or leaf._requires_grad or leaf._root is not None:
                is_new = False
        is_new = is_new and len({*map(id, leaves), *map(id, inputs)}) == len(leaves) + len(inputs)
    outputs = leaves if is_new else _attach_each(ctx, leaves, inputs, recording=recording)
    if recording:
        metadata: list[Any] = []
        for slot, output in enumerate(outputs):
            spec = None
            if isinstance(output, Tensor):
                spec = output._storage.array.aval
                if is_new and _is_differentiable(spec.dtype):
                    output._requires_grad, output._grad_fn, output._output_nr = True, ctx, slot
                elif not (output._requires_grad or ctx._materialize_non_diff_grads):
                    spec = None
            metadata.append(spec)
        ctx.input_metadata = tuple(metadata)
    return outputs


def _attach_each(
    ctx: BackwardCFunction, leaves: Sequence[Any], inputs: Sequence[Tensor], *, recording: bool
) -> Sequence[Any]:
    dirty: set[int] = set()
    if ctx.dirty_tensors:
        dirty = _dirty(ctx, leaves, inputs, recording=recording)
        if recording:
            _refuse_written_views(ctx, leaves)
    input_ids = set(map(id, inputs))
    constant = set(map(id, ctx.non_differentiable))
    attached: set[int] = set()  # tensors made by forward; if returned twice, they are the same tensor
    has_views = False
    outputs: list[Any] = []
    for slot, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            outputs.append(leaf)
            continue
        own = id(leaf)
        is_recorded = recording and own not in constant
        is_dirty = own in dirty and (is_recorded or not leaf._requires_grad)
        # an input, or a captured tensor with a history, must keep its edge; a view without history stays one
        has_edge = leaf._requires_grad and (is_recorded or leaf._root is None)
        is_kept = is_dirty or own in attached or not (own in input_ids or has_edge)
        output = leaf if is_kept else _alias(leaf, is_recorded=is_recorded)
        if is_kept:
            attached.add(own)
        if is_recorded and not is_dirty:
            _give_history(output, ctx, slot)
        elif is_recorded and _is_differentiable(leaf._storage.spec.dtype):
            rebase_history(output, (ctx, slot))
        has_views = has_views or output._root is not None
        outputs.append(output)
    if has_views:
        _restrict(outputs, dirty)
    return outputs


def _dirty(
    ctx: BackwardCFunction, leaves: Sequence[Any], inputs: Sequence[Tensor], *, recording: bool
) -> set[int]:
    """Checks and counts the declared writes. Returns the ids of the tensors."""
    returned = {*map(id, leaves)}
    input_ids = {*map(id, inputs)}
    for tensor in ctx.dirty_tensors:
        if id(tensor) not in input_ids:
            told = f"{ctx.name()}: mark_dirty() received a tensor that is not an input of forward."
            if recording and tensor._root is not None:
                raise AutogradError(
                    f"{told} Got {describe(tensor)}, a view made in forward. Mark and return "
                    "the input itself if it was written, or return the view without mark_dirty()."
                )
            warn_user(told)
        if recording and all(tensor is not marked for marked in ctx.non_differentiable):
            refuse_leaf(tensor, ctx.name())
        if id(tensor) not in returned:
            raise AutogradError(
                f"{ctx.name()}: a tensor marked as dirty was not returned as output. Got "
                f"{describe(tensor)} in mark_dirty(). Return every input that is written in "
                "place."
            )
        refuse_shared_items(tensor, ctx.name(), is_recorded=lambda: recording)
        tensor._storage.version += 1
    return {*map(id, ctx.dirty_tensors)}


def _refuse_written_views(ctx: BackwardCFunction, leaves: Sequence[Any]) -> None:
    """Raises if a view was written and there is another result: its base can get only one new history."""
    count = sum(isinstance(leaf, Tensor) for leaf in leaves)
    views = [tensor for tensor in ctx.dirty_tensors if tensor._root is not None]
    if views and count > 1:
        raise AutogradError(
            f"{ctx.name()}: a Function that modifies inplace an input that is a view of another Tensor "
            f"cannot return more than one Tensor. Got {count}, and {describe(views[0]._storage.array)} in "
            "mark_dirty(). Write into a clone() of the view, or return one Tensor."
        )


def _give_history(output: Tensor, ctx: BackwardCFunction, slot: int) -> None:
    if _is_differentiable(output._storage.array.aval.dtype):
        output._requires_grad = True
        output._grad_fn = ctx
        output._output_nr = slot


@lru_cache
def _is_differentiable(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def _alias(tensor: Tensor, *, is_recorded: bool) -> Tensor:
    """Makes a view of the whole tensor, with its own history or none."""
    if tensor._requires_grad and not is_recorded:
        return tensor._share()
    shape = tuple(tensor._storage.spec.shape)
    with recording_off():
        return make_view(tensor, Reshape.between(shape, shape))


def _restrict(outputs: Sequence[Any], dirty: set[int]) -> None:
    """Marks views as results of a Function. A write may not rebase their history."""
    tensors = [output for output in outputs if isinstance(output, Tensor)]
    creation = Creation.SEVERAL if len(tensors) > 1 else Creation.FUNCTION
    for tensor in tensors:
        root = tensor._root
        if root is not None and id(tensor) not in dirty:
            was_restricted, tensor._creation = tensor._creation, creation
            if not was_restricted:
                note_view(root, tensor)
