"""Functional writes into views: a new tensor with other items at the positions of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dims import find_dim, name_indices
from oplib.errors import ArgumentError, DimensionError
from oplib.tensor.views.frame import find_positions


def _check_shape(self: Any, src: Any, expected: Sequence[int]) -> Any:
    """Returns the source in the dtype of the tensor."""
    if src.shape != tuple(expected):
        raise ArgumentError("expected src to have a size equal to the slice of self", "Expand it.")
    return lax.convert_element_type(src, self.dtype)


def _check_axes(self: Any) -> None:
    if not self.ndim:
        raise DimensionError("it takes no 0-dim tensor", "Add a dim: unsqueeze(0).")


def _select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    _check_axes(self)
    axis = find_dim(self.ndim, dim)
    length = self.shape[axis]
    if not -length <= index < length:
        raise DimensionError(f"index {index} is out of range for dimension {axis}", name_indices(length))
    items = _check_shape(self, src, (*self.shape[:axis], *self.shape[axis + 1 :]))
    return self.at[(*(slice(None),) * axis, index % length)].set(items)


def _slice_scatter(
    self: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    _check_axes(self)
    axis = find_dim(self.ndim, dim)
    if step < 1:
        raise ArgumentError("slice step must be positive", "Turn the tensors with flip.")
    window = slice(start, end, step)
    count = len(range(*window.indices(self.shape[axis])))
    items = _check_shape(self, src, (*self.shape[:axis], count, *self.shape[axis + 1 :]))
    return self.at[(*(slice(None),) * axis, window)].set(items)


def _diagonal_scatter(self: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    first, second = find_dim(self.ndim, dim1), find_dim(self.ndim, dim2)
    if first == second:
        raise ArgumentError("diagonal dimensions cannot be identical", "Name two.")
    matrices = jnp.moveaxis(self, (first, second), (-2, -1))
    rows, columns = matrices.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    count = max(min(rows - down, columns - right), 0)
    items = _check_shape(self, src, (*matrices.shape[:-2], count))
    indices = lax.iota(jnp.int32, count)
    written = matrices.at[
        ..., indices + jnp.full_like(indices, down), indices + jnp.full_like(indices, right)
    ].set(items)
    return jnp.moveaxis(written, (-2, -1), (first, second))


def _as_strided_scatter(
    self: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    if len(size) != len(stride) or min([*size, *stride, storage_offset or 0], default=0) < 0:
        raise ArgumentError(
            "mismatch in length of strides and shape, or a negative number", "Give one stride for each size."
        )
    indices = find_positions(tuple(size), (tuple(stride), storage_offset or 0))
    if indices.size and indices.max() >= self.size:
        raise ArgumentError(
            f"the last item lies outside of the tensor, at position {indices.max()}", "Give smaller strides."
        )
    items = _check_shape(self, src, size)
    flat = jnp.ravel(self).at[indices].set(items)
    return lax.reshape(flat, self.shape)


ROWS = (
    Row(
        "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> "
        "Tensor",
        _as_strided_scatter,
        "self with the items of src at positions given by strides",
    ),
    Row(
        "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor",
        _select_scatter,
        "self with the items of src at one position of a dim",
    ),
    Row(
        "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> "
        "Tensor",
        _slice_scatter,
        "self with the items of src in a slice of a dim",
    ),
    Row(
        "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        _diagonal_scatter,
        "self with the items of src on a diagonal",
    ),
)
