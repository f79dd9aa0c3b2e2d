"""Movement of items without computation: shapes, order, joining, copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.autograd.engine.validation import is_expandable
from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels import partition_rules as partition, view_rules as rules
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.dtype_classes import ALL
from oplib.builtin.shared_kernels.promotion import convert_saturated, is_integral, sum_items
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.tensor import default_int_dtype, result_type

# Shapes -----------------------------------------------------------------------------------------------------


def _sum_to_size(self: Any, size: Sequence[int]) -> Any:
    lead = self.ndim - len(size)
    if not is_expandable(size, self.shape):
        raise ArgumentError(
            f"size {list(size)} is not expandable to that of the tensor",
            "Pass a size that broadcasts to the tensor's shape.",
        )
    summed = [lead + axis for axis, want in enumerate(size) if want == 1 and self.shape[lead + axis] != 1]
    axes = (*range(lead), *summed)
    # As in torch, which uses ``sum`` here, integers are widened only if something is summed, or all is.
    dtype = default_int_dtype() if (axes or not size) and is_integral(self.dtype) else self.dtype
    return lax.reshape(sum_items(lax.convert_element_type(self, dtype), axes), tuple(size))


# Joining ----------------------------------------------------------------------------------------------------


def _to_common_dtype(tensors: Sequence[Any]) -> list[Any]:
    if not tensors:
        raise ArgumentValueError("expected a non-empty list of Tensors", "Give at least one.")
    dtype = result_type(*tensors)
    return [lax.convert_element_type(tensor, dtype) for tensor in tensors]


def concatenate(tensors: Sequence[Any], dim: int) -> Any:
    """Joins arrays along a dim, in their common dtype."""
    arrays = _to_common_dtype(tensors)
    for index, array in enumerate(arrays):
        if not array.ndim:
            raise ArgumentError(
                f"zero-dimensional tensor (at position {index}) cannot be concatenated", "Use stack."
            )
    filled = [array for array in arrays if array.shape != (0,)] or arrays[:1]  # torch ignores empty tensors
    axis = find_dim(filled[0].ndim, dim)
    for array in filled:
        if _without(array.shape, axis) != _without(filled[0].shape, axis):
            raise ArgumentError(
                f"Sizes of tensors must match except in dimension {axis}", "Reshape one of them."
            )
    return lax.concatenate(filled, axis)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _stack(tensors: Sequence[Any], dim: int) -> Any:
    arrays = _to_common_dtype(tensors)
    for array in arrays:
        if array.shape != arrays[0].shape:
            raise ArgumentError("expects each tensor to be equal size", "Reshape one of them, or use cat.")
    axis = find_dim(arrays[0].ndim + 1, dim)
    return lax.concatenate([lax.expand_dims(array, (axis,)) for array in arrays], axis)


# Copies -----------------------------------------------------------------------------------------------------


def _cut(self: Any) -> Any:
    return lax.stop_gradient(self)  # a wrapper: the annotations of JAX's function name undefined types


def _same(self: Any) -> Any:
    return self


def _to_copy(self: Any, dtype: Any) -> Any:
    if jnp.issubdtype(self.dtype, jnp.complexfloating) and not jnp.issubdtype(dtype, jnp.complexfloating):
        self = lax.real(self)
    return convert_saturated(self, dtype)


def _reshape_row(schema: str, doc: str, find: Any, **facts: Any) -> Row:
    """Makes a row of an op that returns a view if memory allows it, otherwise a copy."""
    return Row(
        schema,
        lambda self, *args: lax.reshape(self, find(self, *args)),
        doc,
        view=lambda spec, *args: rules.reshape(spec, find(spec, *args)),
        node="View",
        **facts,
    )


def _row(schema: str, rule: Any, doc: str, *, dtypes: str = ALL, **facts: Any) -> Row:
    return Row(schema, rules.make_view_kernel(rule), doc, view=rule, dtypes=dtypes, **facts)


def _real(self: Any) -> Any:
    return lax.real(self) if jnp.iscomplexobj(self) else self


VIEWS = (
    _reshape_row(
        "reshape(Tensor self, int[] shape) -> Tensor",
        "the items in another shape; a view if torch returns one",
        rules.fill_in_length,
        may_copy=True,
    ),
    _reshape_row(
        "ravel(Tensor self) -> Tensor",
        "the items along one dimension; a view if torch returns one",
        lambda spec: (math.prod(spec.shape),),
        may_copy=True,
    ),
    _reshape_row(
        "flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
        "the items with some dimensions joined; a view if torch returns one",
        rules.flat_shape,
        may_copy=True,
    ),
    _reshape_row(
        "unflatten(Tensor self, int dim, int[] sizes) -> Tensor",
        "the items with one dimension split into several; a view if torch returns one",
        rules.unflat_shape,
        may_copy=True,
    ),
    _row(
        "view(Tensor self, int[] shape) -> Tensor",
        rules.view,
        "the items in another shape",
        source="torch.Tensor.view",
        is_internal=True,
    ),
    _row(
        "expand(Tensor self, int[] size) -> Tensor",
        rules.expand,
        "the items with dimensions of length 1 repeated",
        source="torch.Tensor.expand",
        is_internal=True,
    ),
    _row(
        "broadcast_to(Tensor self, int[] size) -> Tensor",
        rules.expand,
        "as expand",
        node="Expand",
        variadic="size",
    ),
    _row(
        "squeeze(Tensor self, int[1]? dim=None) -> Tensor",
        rules.squeeze,
        "the items without dimensions of length 1",
    ),
    _row(
        "unsqueeze(Tensor self, int dim) -> Tensor",
        rules.unsqueeze,
        "the items with a new dimension of length 1",
    ),
    _row(
        "transpose(Tensor self, int dim0, int dim1) -> Tensor",
        rules.transpose,
        "two dimensions exchanged",
        aliases=("swapdims",),
    ),
    _row("t(Tensor self) -> Tensor", rules.t, "the transposed matrix"),
    _row("permute(Tensor self, int[] dims) -> Tensor", rules.permute, "the dimensions in another order"),
    _row(
        "movedim(Tensor self, int[1] source, int[1] destination) -> Tensor",
        rules.movedim,
        "the items with some dimensions moved",
        node="Permute",
        aliases=("moveaxis",),
    ),
    _row(
        "alias(Tensor self) -> Tensor",
        rules.alias,
        "the same items",
        source="torch.Tensor.__getitem__",
        is_internal=True,
    ),
    _row(
        "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
        rules.diagonal,
        "the diagonals of two dimensions, along a new last dimension",
    ),
    _row(
        "unbind(Tensor self, int dim=0) -> Tensor[]",
        partition.unbind,
        "one tensor for each position of a dimension",
    ),
    _row(
        "split(Tensor self, int split_size_or_sections, int dim=0) -> Tensor[]",
        partition.split_evenly,
        "parts of a dimension, of equal length",
    ),
    _row(
        "split.sizes(Tensor self, int[] split_size_or_sections, int dim=0) -> Tensor[]",
        partition.split,
        "parts of a dimension, of given lengths",
        node="SplitWithSizes",
    ),
    _row(
        "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
        partition.chunk,
        "parts of a dimension, at most a given number",
        node="Split",
    ),
    _row(
        "view_as_real(Tensor self) -> Tensor",
        rules.view_as_real,
        "complex numbers as pairs of real numbers",
        dtypes="c",
    ),
    _row(
        "view_as_complex(Tensor self) -> Tensor",
        rules.view_as_complex,
        "pairs of real numbers as complex numbers",
        dtypes="f",
    ),
    Row(
        "real(Tensor self) -> Tensor",
        _real,
        "real parts",
        view=rules.real,
        node="Select",
        result="shape",
        may_copy=True,
    ),
    Row(
        "imag(Tensor self) -> Tensor",
        rules.make_view_kernel(rules.imag),
        "imaginary parts",
        view=rules.imag,
        node="Select",
        dtypes="c",
        result="shape",
    ),
)

ROWS = (
    *VIEWS,
    Row(
        "sum_to_size(Tensor self, int[] size) -> Tensor",
        _sum_to_size,
        "sums that reverse broadcasting",
        source="torch.Tensor.sum_to_size",
        is_internal=True,
        variadic="size",
    ),
    Row(
        "cat(Tensor[] tensors, int dim=0) -> Tensor",
        concatenate,
        "tensors joined along a dimension",
        out=True,
        aliases=("concat", "concatenate"),
        autocast="cpu widest",
    ),
    Row(
        "stack(Tensor[] tensors, int dim=0) -> Tensor",
        _stack,
        "tensors joined along a new dimension",
        out=True,
        autocast="cpu widest",
    ),
    Row("clone(Tensor self) -> Tensor", _same, "a copy, with history", result="shape"),
    Row(
        "detach(Tensor self) -> Tensor",
        _cut,
        "the same items without history",
        derivative=constant("the op exists to cut the graph"),
        result="shape",
    ),
    Row(
        "_to_copy(Tensor self, ScalarType dtype) -> Tensor",
        _to_copy,
        "the items in another dtype",
        source="torch.Tensor.to",
    ),
)
