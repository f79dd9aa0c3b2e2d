"""Gathering: items read at given indices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import NetworkRow, Row, constant
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.index_rules import (
    check_filled,
    check_fit,
    check_index,
    check_vector,
    check_whole,
    take_items,
    take_slices,
)
from oplib.builtin.shared_kernels.promotion import broadcast_to, get_items
from oplib.errors import ArgumentError, DimensionError
from oplib.tensor import default_int_dtype
from oplib.tensor.devices.layout import find_explicit_mesh


def _from_start(index: Any, length: int) -> Any:
    """Converts negative indices, which count from the end."""
    return jnp.where(index < 0, index + length, index)


def _gather(self: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:  # noqa: ARG001  torch's signature
    axis = find_dim(self.ndim, dim)
    check_fit(self, index, axis)
    if not index.size:
        return jnp.zeros(index.shape, self.dtype)
    if not self.ndim:
        return jnp.broadcast_to(self, index.shape)
    return get_items(lambda array, index: take_items(array, index, axis), self, index)


def _index_select(self: Any, dim: int, index: Any) -> Any:
    check_vector(index)
    if not self.ndim:
        if index.size != 1:
            raise ArgumentError("a tensor without dims accepts one index", "Give one index.")
        return self
    return _take_slices(self, jnp.atleast_1d(index), find_dim(self.ndim, dim))


def _take_slices(array: Any, index: Any, axis: int, name: str = "input") -> Any:
    def get(array: Any, index: Any) -> Any:
        return take_slices(array, [*[slice(None)] * axis, index], "clip", name)

    return get_items(get, array, index)


def _take(self: Any, index: Any) -> Any:
    check_index(index)
    if not self.size and index.size:
        raise DimensionError("tried to take from an empty tensor", "Give one with items.")
    check_whole(self, range(self.ndim), [index])
    flat = jnp.ravel(self)
    return _take_slices(flat, _from_start(index, self.size), 0)


def _take_along_dim(self: Any, indices: Any, dim: int | None) -> Any:
    check_index(indices)
    if dim is None:
        return _take(self, jnp.ravel(indices))
    axis = find_dim(self.ndim, dim)
    fits = all(
        1 in pair or len(set(pair)) == 1
        for index, pair in enumerate(zip(self.shape, indices.shape, strict=False))
        if index != axis
    )
    if self.ndim != indices.ndim or not fits:
        raise ArgumentError(
            "input and indices should have the same number of dimensions, and sizes that match or are 1 "
            f"except along dim {axis}",
            "Reshape one of them.",
        )
    along = _from_start(indices, self.shape[axis])

    def get(array: Any, index: Any) -> Any:
        check_filled(array, [axis], index)
        if find_explicit_mesh((array, index)) is None:
            return jnp.take_along_axis(array, index, axis, mode="clip")
        sizes = [max(pair) for pair in zip(array.shape, index.shape, strict=True)]
        array, index = (
            broadcast_to(one, (*sizes[:axis], one.shape[axis], *sizes[axis + 1 :])) for one in (array, index)
        )
        return take_items(array, index, axis)

    return get_items(get, self, along)


def _embedding(weight: Any, indices: Any, padding_idx: int) -> Any:
    """Looks up rows; the padding row has no gradient."""
    check_index(indices)
    rows = _take_slices(weight, indices, 0, "weight")
    if padding_idx < 0:
        return rows
    is_padding = lax.expand_dims(indices == padding_idx, (indices.ndim,))
    return jnp.where(is_padding, lax.stop_gradient(rows), rows)


def _one_hot(self: Any, num_classes: int) -> Any:
    if self.dtype != default_int_dtype():
        raise ArgumentError(
            "is only applicable to index tensor of type LongTensor", "Convert it: tensor.int()."
        )
    classes = lax.broadcasted_iota(self.dtype, (*self.shape, num_classes), self.ndim)
    return lax.convert_element_type(jnp.expand_dims(self, -1) == classes, self.dtype)


ROWS = (
    Row(
        "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
        _gather,
        "items at given indices along a dim",
        exact_out=True,
    ),
    Row(
        "index_select(Tensor self, int dim, Tensor index) -> Tensor",
        _index_select,
        "slices at given indices of a dim",
        exact_out=True,
    ),
    Row(
        "take(Tensor self, Tensor index) -> Tensor",
        _take,
        "items at given indices of the flat tensor",
        out=True,
    ),
    Row(
        "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
        _take_along_dim,
        "items at given indices along a dim; the other axes broadcast",
        exact_out=True,
    ),
    NetworkRow(
        "embedding.padded(Tensor weight, Tensor indices, int padding_idx=-1) -> Tensor",
        _embedding,
        "rows at given indices; the padding row has no gradient",
    ),
    NetworkRow(
        "one_hot.classes(Tensor self, int num_classes) -> Tensor",
        _one_hot,
        "1 at the index given by each item, and 0 elsewhere",
        derivative=constant("indices are piecewise constant in the items"),
        dtypes="i",
    ),
)
