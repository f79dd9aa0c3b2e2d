"""Indexing: items read at positions, and written back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels import view_rules as rules
from oplib.builtin.shared_kernels.index_rules import take_slices
from oplib.builtin.shared_kernels.promotion import broadcast_to, find_common_shape, get_items
from oplib.builtin.tables.creation.constants import store
from oplib.errors import ArgumentError, DimensionError
from oplib.protocols import Values
from oplib.tensor.dtypes import names as dtypes

from .scattering import combine

# A position along one dimension is (start, length, step); start is None if it is an operand.
Window = tuple[int | None, int, int]


def _select(self: Any, dim: int, index: Any) -> Any:
    return lax.dynamic_index_in_dim(self, index, dim, keepdims=False)


def _index(self: Any, indices: Sequence[Any], dims: Sequence[int]) -> Any:
    def get(array: Any, *indices: Any) -> Any:
        return take_slices(array, _arrange(array.ndim, indices, dims), None)

    return get_items(get, self, *indices)


def _arrange(ndim: int, indices: Sequence[Any], dims: Sequence[int]) -> Values:
    """Returns the index of an array with these tensors at these dims."""
    shapes = [index.shape for index in indices]
    try:
        shape: Any = jnp.broadcast_shapes(*shapes)
    except ValueError:
        raise DimensionError(
            "shape mismatch: indexing tensors could not be broadcast together", "Reshape one of them."
        ) from None
    arranged: list[Any] = [slice(None)] * ndim
    for dim, index in zip(dims, indices, strict=True):
        wide = index if index.dtype.itemsize > 2 else lax.convert_element_type(index, dtypes.int32)
        arranged[dim] = broadcast_to(wide, shape)  # int8 does not hold the length of most dims
    return tuple(arranged)


def _setitem(
    self: Any, value: Any, starts: Sequence[Any], indices: Sequence[Any], windows: Any, dims: Any, shape: Any
) -> Any:
    """Stores a value at selected items.

    Args:
        self: the whole tensor.
        value: a value that broadcasts to ``shape`` combined with the tensors.
        starts: the starts that are operands, in the order of the dims.
        indices: tensors that index the windowed array, at ``dims``.
        windows: one window per dim.
        dims: the positions of the tensors in ``shape``.
        shape: the shape of the windowed array, without selected dims and with new ones.
    """
    rest = iter(starts)
    windows = [(next(rest) if start is None else start, length, step) for start, length, step in windows]
    full = tuple(length for _, length, _ in windows)
    if not dims and all(step == 1 for *_, step in windows):
        update = lax.reshape(store(value, shape, self.dtype), full)
        return _update(self, update, [start for start, *_ in windows])
    positions = lax.reshape(_find_positions(self.shape, windows), tuple(shape))
    selected = positions[_arrange(len(shape), indices, dims)] if dims else positions
    update = store(value, selected.shape, self.dtype)
    flat = jnp.ravel(self).at[jnp.ravel(selected)].set(jnp.ravel(update))
    return lax.reshape(flat, self.shape)


def _update(array: Any, update: Any, starts: list[Any]) -> Any:
    if not array.ndim:
        return update
    return lax.dynamic_update_slice(array, update, [jnp.asarray(start, jnp.int32) for start in starts])


def _find_positions(shape: tuple[int, ...], windows: Any) -> Any:
    """Returns the row-major number of each item of a windowed array among all items."""
    full = tuple(length for _, length, _ in windows)
    positions = jnp.zeros(full, jnp.int32)
    stride = 1
    for axis in reversed(range(len(shape))):
        start, _, step = windows[axis]
        along = lax.broadcasted_iota(jnp.int32, full, axis) * jnp.int32(step) + jnp.asarray(start, jnp.int32)
        positions = positions + along * jnp.int32(stride)
        stride *= shape[axis]
    return positions


def _index_put(self: Any, indices: Sequence[Any], values: Any, dims: Sequence[int], accumulate: bool) -> Any:
    where = _arrange(self.ndim, indices, dims)
    values = store(values, jax.eval_shape(lambda array: array[where], self).shape, self.dtype)
    return combine(self, where, "add" if accumulate else "set", values)


def _masked_fill(self: Any, mask: Any, value: Any) -> Any:
    if mask.dtype != np.bool_:
        raise ArgumentError("it only supports boolean masks", "Compare it with something: mask != 0.")
    shape = find_common_shape(self, mask)
    filled = store(value, shape, self.dtype)
    return lax.select(broadcast_to(mask, shape), filled, broadcast_to(self, shape))


ROWS = (
    Row(
        "select(Tensor self, int dim, int index) -> Tensor",
        _select,
        "items at one position of a dimension",
        operand=("index",),
        view=rules.select,
    ),
    Row(
        "narrow(Tensor self, int dim, int start, int length) -> Tensor",
        rules.make_view_kernel(rules.narrow),
        "consecutive items of a dimension",
        view=rules.narrow,
        node="Slice",
    ),
    Row(
        "index(Tensor self, Tensor[] indices, int[] dims) -> Tensor",
        _index,
        "items at integer indices along some dimensions",
        source="torch.Tensor.__getitem__",
        is_internal=True,
    ),
    Row(
        "_index_put(Tensor self, Tensor[] indices, Tensor values, int[] dims, bool accumulate) -> Tensor",
        _index_put,
        "the tensor with other items at given indices, or with items added there",
        source="torch.index_put",
    ),
    Row(
        "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        _masked_fill,
        "the tensor with one value where a mask is True",
        operand=("value",),
        in_place=True,
        source="torch.Tensor.masked_fill",
    ),
    Row(
        "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
        _masked_fill,
        "the tensor with one value where a mask is True",
        source="torch.Tensor.masked_fill",
    ),
    Row(
        "setitem(Tensor self, Tensor value, Tensor[] starts, Tensor[] indices, Any windows, int[] dims, "
        "int[] shape) -> Tensor",
        _setitem,
        "the tensor with other items at the selected positions",
        source="torch.Tensor.__setitem__",
        is_internal=True,
    ),
)
