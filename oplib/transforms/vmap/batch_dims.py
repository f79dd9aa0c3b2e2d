"""Giving values a batch dimension, and moving it."""

from __future__ import annotations

import jax.numpy as jnp

from oplib.library.carrier.look import Below
from oplib.tensor import Tensor, upcalls


def with_batch(value: Below, size: int) -> Below:
    """Gives a value that is the same in all examples the axis of these."""
    if value.is_batched:
        return value
    return Below(jnp.broadcast_to(value.array[None], (size, *value.array.shape)), True)


def repeat(tensor: Tensor, size: int) -> Tensor:
    """Repeats a tensor that is the same in all examples, on the tape."""
    return upcalls.expand(upcalls.unsqueeze(tensor, 0), (size, *tensor._storage.array.shape))


def move_batch(tensor: Tensor, source: int, target: int) -> Tensor:
    """Moves one dim of a tensor to another place, on the tape."""
    dims = [dim for dim in range(tensor._storage.array.ndim) if dim != source]
    dims.insert(target, source)
    return upcalls.permute(tensor, dims)
