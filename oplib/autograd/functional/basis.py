"""The unit vectors of the space of several tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.tensor import Tensor, box, upcalls
from oplib.tensor.devices.placement import find_other_device

from .arguments import Tensors


def count_items(tensor: Tensor) -> int:
    """Returns the number of items of a tensor."""
    return math.prod(tensor._storage.array.shape)


def make_basis(tensors: Tensors) -> list[Any]:
    """Returns all unit vectors: for each tensor an array ``[total, *shape]``. Equal rows form one vector."""
    total = sum(map(count_items, tensors))
    start = 0
    basis: list[Any] = []
    for tensor in tensors:
        array, count = tensor._storage.array, count_items(tensor)
        rows = np.eye(total, count, -start, dtype=array.dtype)
        basis.append(jnp.array(rows.reshape(total, *array.shape), device=find_other_device(array)))
        start += count
    return basis


def iterate_units(tensor: Tensor) -> Iterator[Tensor]:
    """Yields the unit vectors of one tensor."""
    array = tensor._storage.array
    for place in range(count_items(tensor)):
        unit = np.zeros(array.shape, array.dtype)
        unit.reshape(-1)[place] = 1
        yield box(jnp.array(unit, device=find_other_device(array)))


def split_rows(rows: Tensor, tensors: Tensors) -> list[Tensor]:
    """Splits a tensor along its first dimension into the rows of each of several tensors."""
    parts: list[Tensor] = []
    start = 0
    for tensor in tensors:
        stop = start + count_items(tensor)
        parts.append(upcalls.getitem(rows, slice(start, stop)))
        start = stop
    return parts
