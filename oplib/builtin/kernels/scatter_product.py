"""Products of the items that are scattered to one position, computed by multiplication only.

JAX's scattered product has no derivative with respect to the items. The usual formula divides the product by
an item, and so fails for an item of 0. A scan along the items, sorted by position, only multiplies. So its
derivatives of every order are correct for 0 too.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from .promotion import strong


def multiply_scattered(whole: Any, place: tuple[Any, ...], items: Any, *, include_self: bool) -> Any:
    """Returns the whole with the products of items at their positions.

    Args:
        whole: an array of any shape.
        place: for each axis of the whole, the position of each item; invalid positions are ignored.
        items: an array of the shape of the positions.
        include_self: whether the item of the whole is a factor too.
    """
    size = whole.size
    flat = _find_flat(whole.shape, place)
    order = jnp.argsort(flat, stable=True)
    targets = flat[order]
    values = lax.reshape(items, (items.size,))[order]
    _, products = lax.associative_scan(_combine, (targets, values))
    following = jnp.concatenate([targets[1:], jnp.full((1,), -1, targets.dtype)])
    ends = jnp.where(targets != following, targets, strong(size, targets))  # the others are dropped
    whole_flat = lax.reshape(whole, (size,))
    factors = jnp.ones((size,), whole.dtype).at[ends].set(products, mode="drop")
    if include_self:
        return lax.reshape(whole_flat * factors, whole.shape)
    is_hit = jnp.zeros((size,), bool).at[flat].set(True, mode="drop")
    return lax.reshape(jnp.where(is_hit, factors, whole_flat), whole.shape)


def _combine(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Combines two runs sorted by target: returns the last target and the product of its items."""
    same = first[0] == second[0]
    return second[0], jnp.where(same, first[1] * second[1], second[1])


def _find_flat(shape: tuple[int, ...], place: tuple[Any, ...]) -> Any:
    """Returns the row-major number of each position; the size of the whole for an invalid position."""
    count = 1
    flat: Any = jnp.zeros_like(place[0])
    is_there: Any = jnp.ones(place[0].shape, bool)
    for length, along in zip(reversed(shape), reversed(place), strict=True):
        flat = flat + along * strong(count, along)
        is_there = is_there & (along >= strong(0, along)) & (along < strong(length, along))
        count *= length
    found = jnp.where(is_there, flat, strong(count, flat))
    return lax.reshape(found, (found.size,))
