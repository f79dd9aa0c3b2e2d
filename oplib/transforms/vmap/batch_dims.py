"""Functions that add a batch dimension to values, and move it."""

from __future__ import annotations

import jax.numpy as jnp

from oplib.library.carrier.unmapped_values import UnmappedValue
from oplib.tensor import Tensor, upcalls


def with_batch(value: UnmappedValue, size: int) -> UnmappedValue:
    """Adds the batch axis to a value that is the same in all examples."""
    if value.is_batched:
        return value
    return UnmappedValue(jnp.broadcast_to(value.array[None], (size, *value.array.shape)), True)


def repeat(tensor: Tensor, size: int) -> Tensor:
    """Repeats a tensor that is the same in all examples. The tape records it."""
    return upcalls.expand(upcalls.unsqueeze(tensor, 0), (size, *tensor._storage.array.shape))


def move_batch(tensor: Tensor, source: int, target: int) -> Tensor:
    """Moves one dim of a tensor to another place. The tape records it."""
    dims = [dim for dim in range(tensor._storage.array.ndim) if dim != source]
    dims.insert(target, source)
    return upcalls.permute(tensor, dims)
