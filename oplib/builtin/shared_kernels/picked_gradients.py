"""Gradients of selected items: each gradient goes to the position that the op returns for its item.

Only the positions are saved, so the tensor may be written before the backward, as in torch.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.library import Derivative
from oplib.tensor.devices.layout import find_explicit_mesh

from .dims import find_dim
from .index_rules import list_indices


def _save_sorted(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.shape, ctx.dim, ctx.keepdim, ctx.rest = inputs[0].shape, keyword_only_inputs["dim"], True, 0


def _save_largest(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.shape, ctx.dim, ctx.keepdim, ctx.rest = inputs[0].shape, inputs[2], True, 4


def _save_chosen(ctx: Any, inputs: Any, output: Any) -> None:
    *_, dim, keepdim = inputs
    ctx.save_for_backward(output[1])
    ctx.shape, ctx.dim, ctx.keepdim, ctx.rest = inputs[0].shape, dim, keepdim, len(inputs) - 1


def _put_back(ctx: Any, g: Any, _: Any) -> Any:
    """Scatters a gradient to the position of its item, and returns None for arguments that are no tensors."""
    (indices,) = ctx.saved_tensors
    return (_spread(ctx, g, indices), *[None] * ctx.rest)


def _spread(ctx: Any, g: Any, indices: Any) -> Any:
    if not ctx.shape:
        return g
    axis = find_dim(len(ctx.shape), ctx.dim)
    if not ctx.keepdim:
        g, indices = (lax.expand_dims(array, (axis,)) for array in (g, indices))
    target = jnp.zeros(ctx.shape, g.dtype).at[list_indices(indices, axis, len(ctx.shape))]
    layout = jax.typeof(g).sharding if find_explicit_mesh([g]) is not None else None
    return target.add(g, mode="promise_in_bounds", unique_indices=True, out_sharding=layout)


OF_SORTED = Derivative(backward=_put_back, setup_context=_save_sorted)
"""The formula of ``sort``."""

OF_LARGEST = Derivative(backward=_put_back, setup_context=_save_largest)
"""The formula of ``topk``."""

OF_CHOSEN = Derivative(backward=_put_back, setup_context=_save_chosen)
"""The formula of an op that selects one item along a dim: ``(self, ..., dim, keepdim)``."""
