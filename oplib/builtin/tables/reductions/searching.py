"""Searching: the positions of items in sorted sequences."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels.promotion import promote_operands
from oplib.errors import ArgumentError
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

_INDICES = constant("indices are piecewise constant in the items")


def _searchsorted(sorted_sequence: Any, self: Any, *, right: bool = False, out_int32: bool = False) -> Any:
    common = promote_operands(sorted_sequence, self)
    sorted_sequence, self = (lax.convert_element_type(array, common) for array in (sorted_sequence, self))
    if not sorted_sequence.ndim:
        raise ArgumentError("the boundaries must have an axis", "Reshape them.")
    side = "right" if right else "left"
    dtype = dtypes.int32 if out_int32 else default_int_dtype()
    if sorted_sequence.ndim == 1:
        return lax.convert_element_type(jnp.searchsorted(sorted_sequence, self, side=side), dtype)
    if sorted_sequence.shape[:-1] != self.shape[:-1]:
        raise ArgumentError(
            "the sequences and the values must have the same axes except the last", "Reshape one of them."
        )
    search = partial(jnp.searchsorted, side=side)
    for _ in self.shape[:-1]:
        search = jax.vmap(search)
    return lax.convert_element_type(search(sorted_sequence, self), dtype)


def _bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    if boundaries.ndim != 1:
        raise ArgumentError("the boundaries must have one dimension", "Flatten them.")
    return _searchsorted(boundaries, self, right=right, out_int32=out_int32)


def _nonzero_static(self: Any, *, size: int, fill_value: int = -1) -> Any:
    if size < 0:
        raise ArgumentError("'size' must be a non-negative integer", "Give the number of rows.")
    if not self.size or not self.ndim:
        return jnp.full((size, self.ndim), fill_value, default_int_dtype())
    indices = jnp.nonzero(self, size=size, fill_value=fill_value)
    return lax.convert_element_type(jnp.stack(indices, 1), default_int_dtype())


ROWS = (
    Row(
        "searchsorted(Tensor sorted_sequence, Tensor self, *, bool right=False, bool "
        "out_int32=False) -> Tensor",
        _searchsorted,
        "indices at which items would be inserted in a sorted sequence",
        derivative=_INDICES,
        dtypes="ihf",
    ),
    Row(
        "bucketize(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
        _bucketize,
        "index of the interval between boundaries that contains each item",
        derivative=_INDICES,
        dtypes="ihf",
    ),
    Row(
        "nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
        _nonzero_static,
        "indices of items that are not 0: as many rows as are asked for, so that it can be traced",
        derivative=_INDICES,
        dtypes="bihfc",
        exact_out=True,
    ),
)
