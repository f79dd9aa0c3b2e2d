"""Gradients of extrema: equal items share the gradient, and nan items get it by torch's rules."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import save_inputs
from oplib.library import Derivative

from .dims import find_dims
from .promotion import broadcast, broadcast_to, sum_like


def _save_both(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output)


def _share_of_all(ctx: Any, g: Any) -> Any:
    """Shares the gradient of a nan result among the nan items."""
    x, y = ctx.saved_tensors
    y = broadcast_to(y, x.shape)
    is_it = (x == y) | (jnp.isnan(x) & jnp.isnan(y))
    count = lax.convert_element_type(jnp.sum(is_it, dtype=jnp.int32), g.dtype)
    return jnp.where(is_it, broadcast_to(g / count, x.shape), 0)


def _save_along(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output)
    ctx.dim, ctx.keepdim = inputs[1], inputs[2]


def _save_extrema(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], *output)
    dim = keyword_only_inputs["dim"]
    ctx.dim, ctx.keepdim = [] if dim is None else [dim], keyword_only_inputs["keepdim"]


def _share_along(ctx: Any, g: Any) -> Any:
    x, y = ctx.saved_tensors
    return _share(x, y, g, ctx), None, None


def _share_of_extrema(ctx: Any, low: Any, high: Any) -> Any:
    x, least, most = ctx.saved_tensors
    return _share(x, least, low, ctx) + _share(x, most, high, ctx)


def _share(x: Any, y: Any, g: Any, ctx: Any) -> Any:
    """Shares the gradient among the items equal to the result; a nan result gives all of them 0 / 0."""
    axes = find_dims(x, ctx.dim)
    if not ctx.keepdim:
        y, g = lax.expand_dims(y, axes), lax.expand_dims(g, axes)
    is_it = lax.convert_element_type(x == broadcast_to(y, x.shape), x.dtype)
    count = jnp.sum(is_it, axis=axes, keepdims=True)
    return broadcast_to(g, x.shape) * is_it / broadcast_to(count, x.shape)


def _share_by(is_worse: Any, ctx: Any, g: Any) -> Any:
    """Computes the gradient of the extremum of two items; if one is nan, both get the whole gradient."""
    x, y = _read_pair(ctx, g)
    part = jnp.where(x == y, g * 0.5, g)
    grads = jnp.where(is_worse(x, y), 0, part), jnp.where(is_worse(y, x), 0, part)
    return sum_like(grads, ctx.saved_tensors)


def _give_by(is_first: Any, ctx: Any, g: Any) -> Any:
    """Computes the gradient of an op that chooses one of two items, which alone gets it."""
    chosen = is_first(*_read_pair(ctx, g))
    return sum_like((jnp.where(chosen, g, 0), jnp.where(chosen, 0, g)), ctx.saved_tensors)


def _read_pair(ctx: Any, g: Any) -> list[Any]:
    return [lax.convert_element_type(array, g.dtype) for array in broadcast(ctx.saved_tensors)]


def choose_first(is_first: Any) -> Derivative:
    """Returns the derivative of ``where(is_first(x, y), x, y)``."""
    return Derivative(backward=partial(_give_by, is_first), setup_context=save_inputs, selects=True)


OF_ALL = Derivative(backward=_share_of_all, setup_context=_save_both, selects=True)
"""The formula of an extremum, or a median, of all items."""

ALONG = Derivative(backward=_share_along, setup_context=_save_along, selects=True)
"""The formula of extrema along dims: ``(self, dim, keepdim)``."""

OF_EXTREMA = Derivative(backward=_share_of_extrema, setup_context=_save_extrema, selects=True)
"""The formula of smallest and largest items: ``(self, *, dim, keepdim)``."""

LARGER = Derivative(backward=partial(_share_by, lax.lt), setup_context=save_inputs, selects=True)
"""The formula of the larger of two items."""

SMALLER = Derivative(backward=partial(_share_by, lax.gt), setup_context=save_inputs, selects=True)
"""The formula of the smaller of two items."""
