"""Movement: shapes, order, joining, copies; nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.errors import ArgumentError, ArgumentValueError, describe
from oplib.tensor import result_type

from ._dims import find_dim
from ._promotion import broadcast_to
from ._table import Row, constant

# Shapes -----------------------------------------------------------------------------------------------------


def _reshape(op: str) -> Any:
    def kernel(self: Any, shape: Sequence[int]) -> Any:
        return lax.reshape(self, _find_shape(op, self, shape))

    return kernel


def _find_shape(op: str, array: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Fills in the one length that may be left open by -1."""
    known = math.prod(length for length in shape if length != -1)
    is_open = shape.count(-1) if isinstance(shape, (list, tuple)) else 0
    fits = array.size % known == 0 if is_open and known else known == array.size
    if is_open > 1 or any(length < -1 for length in shape) or not fits:
        raise ArgumentError(
            f"{op}: shape {list(shape)} is invalid for an input of {array.size} items. Got "
            f"{describe(array)}. "
            f"Keep the number of items; one length may be -1."
        )
    return tuple(array.size // known if length == -1 else length for length in shape)


def _expand(self: Any, size: Sequence[int]) -> Any:
    lead = len(size) - self.ndim
    own = (*[None] * lead, *self.shape)
    shape = tuple(have if want == -1 else want for have, want in zip(own, size, strict=False))
    fits = lead >= 0 and all(
        want is not None and (want == have or have in (None, 1))
        for have, want in zip(own, shape, strict=True)
    )
    if not fits:
        raise ArgumentError(
            f"expand: the sizes must match the existing ones where these are not 1. Got {describe(self)} and "
            f"{list(size)}. Use -1 for a size that stays."
        )
    return broadcast_to(self, shape)


def _squeeze(self: Any, dim: Sequence[int] | None) -> Any:
    chosen = range(self.ndim) if dim is None else {find_dim("squeeze", self.ndim, one) for one in dim}
    return lax.squeeze(self, tuple(one for one in chosen if self.ndim and self.shape[one] == 1))


def _unsqueeze(self: Any, dim: int) -> Any:
    return lax.expand_dims(self, (find_dim("unsqueeze", self.ndim + 1, dim),))


def _sum_to_size(self: Any, size: Sequence[int]) -> Any:
    lead = self.ndim - len(size)
    fits = lead >= 0 and all(want in (1, have) for have, want in zip(self.shape[lead:], size, strict=True))
    if not fits:
        raise ArgumentError(
            f"sum_to_size: size {list(size)} is not expandable to that of the tensor. Got {describe(self)}. "
            f"Give a size from which the tensor can be had by broadcasting."
        )
    summed = tuple(
        lead + axis for axis, want in enumerate(size) if want == 1 and self.shape[lead + axis] != 1
    )
    return lax.reshape(jnp.sum(self, axis=(*range(lead), *summed), dtype=self.dtype), tuple(size))


# Order ------------------------------------------------------------------------------------------------------


def _transpose(self: Any, dim0: int, dim1: int) -> Any:
    order = list(range(self.ndim))
    first, second = find_dim("transpose", self.ndim, dim0), find_dim("transpose", self.ndim, dim1)
    if order:
        order[first], order[second] = order[second], order[first]
    return lax.transpose(self, order)


def _t(self: Any) -> Any:
    if self.ndim > 2:
        raise ArgumentError(
            f"t: expects a tensor with at most 2 dimensions. Got {describe(self)}. Use transpose(dim0, dim1)."
        )
    return lax.transpose(self, tuple(reversed(range(self.ndim))))


def _permute(self: Any, dims: Sequence[int]) -> Any:
    order = tuple(find_dim("permute", self.ndim, dim) for dim in dims)
    if sorted(order) != list(range(self.ndim)):
        raise ArgumentError(
            f"permute: the dims must name each dimension once. Got {list(dims)} for {describe(self)}. "
            f"Give all {self.ndim} of them."
        )
    return lax.transpose(self, order)


# Joining ----------------------------------------------------------------------------------------------------


def _to_common_dtype(op: str, tensors: Sequence[Any]) -> list[Any]:
    if not tensors:
        raise ArgumentValueError(
            f"{op}: expected a non-empty list of Tensors. Got an empty one. Give at least one."
        )
    dtype = result_type(*tensors)
    return [lax.convert_element_type(tensor, dtype) for tensor in tensors]


def _cat(tensors: Sequence[Any], dim: int) -> Any:
    arrays = _to_common_dtype("cat", tensors)
    for place, array in enumerate(arrays):
        if not array.ndim:
            raise ArgumentError(
                f"cat: zero-dimensional tensor (at position {place}) cannot be concatenated. Got "
                f"{describe(array)}. Use stack."
            )
    filled = [array for array in arrays if array.shape != (0,)] or arrays[:1]  # torch lets these pass
    axis = find_dim("cat", filled[0].ndim, dim)
    for array in filled:
        if _without(array.shape, axis) != _without(filled[0].shape, axis):
            raise ArgumentError(
                f"cat: Sizes of tensors must match except in dimension {axis}. Got {describe(filled[0])} and "
                f"{describe(array)}. Reshape one of them."
            )
    return lax.concatenate(filled, axis)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _stack(tensors: Sequence[Any], dim: int) -> Any:
    arrays = _to_common_dtype("stack", tensors)
    for array in arrays:
        if array.shape != arrays[0].shape:
            raise ArgumentError(
                f"stack: expects each tensor to be equal size. Got {describe(arrays[0])} and "
                f"{describe(array)}. "
                f"Reshape one of them, or use cat."
            )
    axis = find_dim("stack", arrays[0].ndim + 1, dim)
    return lax.concatenate([lax.expand_dims(array, (axis,)) for array in arrays], axis)


# Copies -----------------------------------------------------------------------------------------------------


def _cut(self: Any) -> Any:
    return lax.stop_gradient(self)  # in a function of ours: JAX's own has annotations that name nothing


def _same(self: Any) -> Any:
    return self


def _to_copy(self: Any, dtype: Any) -> Any:
    if jnp.issubdtype(self.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
        self = lax.real(self)
    return lax.convert_element_type(self, dtype)


ROWS = (
    Row(
        "reshape(Tensor self, int[] shape) -> Tensor",
        _reshape("reshape"),
        "the items in another shape",
        is_view=True,
    ),
    Row(
        "view(Tensor self, int[] shape) -> Tensor",
        _reshape("view"),
        "the items in another shape",
        is_view=True,
        source="torch.Tensor.view",
    ),
    Row(
        "expand(Tensor self, int[] size) -> Tensor",
        _expand,
        "dimensions of length 1 repeated",
        is_view=True,
        source="torch.Tensor.expand",
    ),
    Row(
        "squeeze(Tensor self, int[1]? dim=None) -> Tensor",
        _squeeze,
        "dimensions of length 1 left out",
        is_view=True,
    ),
    Row(
        "unsqueeze(Tensor self, int dim) -> Tensor",
        _unsqueeze,
        "a dimension of length 1 put in",
        is_view=True,
    ),
    Row(
        "sum_to_size(Tensor self, int[] size) -> Tensor",
        _sum_to_size,
        "broadcasting undone by summing",
        source="torch.Tensor.sum_to_size",
    ),
    Row(
        "transpose(Tensor self, int dim0, int dim1) -> Tensor",
        _transpose,
        "two dimensions exchanged",
        is_view=True,
    ),
    Row("t(Tensor self) -> Tensor", _t, "the transposed matrix", is_view=True),
    Row(
        "permute(Tensor self, int[] dims) -> Tensor",
        _permute,
        "the dimensions in another order",
        is_view=True,
    ),
    Row("cat(Tensor[] tensors, int dim=0) -> Tensor", _cat, "tensors joined along a dimension"),
    Row("stack(Tensor[] tensors, int dim=0) -> Tensor", _stack, "tensors joined along a new dimension"),
    Row("clone(Tensor self) -> Tensor", _same, "a copy, with history"),
    Row(
        "alias(Tensor self) -> Tensor",
        _same,
        "the same items",
        is_view=True,
        source="torch.Tensor.__getitem__",
    ),
    Row(
        "detach(Tensor self) -> Tensor",
        _cut,
        "the same items without history",
        derivative=constant("it is there to cut the graph"),
        is_view=True,
    ),
    Row(
        "_to_copy(Tensor self, ScalarType dtype) -> Tensor",
        _to_copy,
        "the items in another dtype",
        source="torch.Tensor.to",
    ),
)
