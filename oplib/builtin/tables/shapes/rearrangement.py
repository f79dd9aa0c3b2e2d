"""Rearrangement: items repeated, mirrored, rolled, masked and padded. The results are new, not views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import NetworkRow, Row
from oplib.builtin.shared_kernels.cpu_forms import compute_on_cpu
from oplib.builtin.shared_kernels.dims import find_dim, find_dims
from oplib.builtin.shared_kernels.promotion import convert_number, strong
from oplib.errors import ArgumentError, DimensionError, UnsupportedArgumentError

# Repeated ---------------------------------------------------------------------------------------------------


def _check_repeats(repeats: Sequence[int]) -> None:
    if any(times < 0 for times in repeats):
        raise ArgumentError("nothing can be repeated a negative number of times", "Give 0 or more.")


def _repeat(self: Any, repeats: Sequence[int]) -> Any:
    _check_repeats(repeats)
    if len(repeats) < self.ndim:
        raise ArgumentError(
            "number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            "Give one number for each axis.",
        )
    return jnp.tile(self, tuple(repeats))


def _tile(self: Any, dims: Sequence[int]) -> Any:
    _check_repeats(dims)
    return jnp.tile(self, tuple(dims))


def _repeat_interleave(self: Any, repeats: int, dim: int | None) -> Any:
    if repeats < 0:
        raise ArgumentError("repeats can not be negative", "Give 0 or more.")
    if dim is None:
        return jnp.repeat(jnp.ravel(self), repeats)
    return jnp.repeat(self, repeats, axis=find_dim(self.ndim, dim))


# Mirrored and rolled ----------------------------------------------------------------------------------------


def _flip(self: Any, dims: Sequence[int]) -> Any:
    return lax.rev(self, find_dims(self, dims)) if dims else self


def _flip_axis(axis: int, self: Any) -> Any:
    if self.ndim <= axis:
        raise ArgumentError(f"input must be >= {axis + 1}-d", "Add an axis with unsqueeze.")
    return lax.rev(self, (axis,))


def _roll(self: Any, shifts: Sequence[int], dims: Sequence[int]) -> Any:
    if not dims:
        if len(shifts) != 1:
            raise ArgumentError("without dims there is one shift", "Name the dims.")
        return lax.reshape(jnp.roll(jnp.ravel(self), shifts[0]), self.shape)
    if len(shifts) != len(dims):
        raise ArgumentError("shifts and dimensions must align", "Give as many shifts as dims.")
    if not self.ndim:
        raise DimensionError(
            f"Dimension specified as {dims[0]} but tensor has no dimensions", "Leave out dims."
        )
    return jnp.roll(self, tuple(shifts), tuple(find_dim(self.ndim, dim) for dim in dims))


def _rot90(self: Any, k: int, dims: Sequence[int]) -> Any:
    if len(dims) != 2 or len(set(find_dims(self, dims))) != 2:
        raise ArgumentError("expected two different dims", "Name the plane to turn.")
    return jnp.rot90(self, k, (dims[0], dims[1]))


# Triangles and diagonals ------------------------------------------------------------------------------------


def _cut_triangle(cut: Any, self: Any, diagonal: int) -> Any:
    if self.ndim < 2:
        raise ArgumentError("input tensor must have at least 2 dimensions", "Add an axis.")
    return cut(self, diagonal)


def _diag(self: Any, diagonal: int) -> Any:
    if self.ndim not in (1, 2):
        raise ArgumentError("supports 1D or 2D tensors", "Use diagonal or diag_embed for the others.")
    return jnp.diag(self, diagonal)


def _diag_embed(self: Any, offset: int, dim1: int, dim2: int) -> Any:
    if not self.ndim:
        raise DimensionError("the tensor has no axis to make diagonals of", "Add one: unsqueeze(0).")
    size = self.shape[-1] + abs(offset)
    rows = lax.broadcasted_iota(jnp.int32, (size, size), 0)
    columns = lax.broadcasted_iota(jnp.int32, (size, size), 1)
    indices = jnp.where(columns - rows == offset, rows + min(offset, 0), -1)
    if self.shape[-1]:
        items = jnp.take(self, jnp.clip(indices, 0, None), axis=-1, mode="clip")
        matrix = jnp.where(indices >= 0, items, strong(0, self))
    else:
        matrix = jnp.zeros((*self.shape[:-1], size, size), self.dtype)
    first, second = (find_dim(self.ndim + 1, dim) for dim in (dim1, dim2))
    if first == second:
        raise ArgumentError("expected two different dims", "Change one.")
    if first > second:
        matrix = matrix.mT
    return jnp.moveaxis(matrix, (-2, -1), sorted((first, second)))


# Padded -----------------------------------------------------------------------------------------------------

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(self: Any, pad: Sequence[int], mode: str, value: complex | None) -> Any:
    if mode != "constant" and mode not in _MODES:
        raise UnsupportedArgumentError(
            "unrecognised padding mode", "Choose constant, reflect, replicate or circular."
        )
    widths = _find_widths(self, pad)
    if mode == "constant":
        number = jnp.asarray(convert_number(value or 0, self.dtype))
        return lax.pad(self, number, [(low, high, 0) for low, high in widths])
    _check_mode(self, pad, mode, value)
    _check_sizes(self, pad, mode, widths)
    more = [(max(low, 0), max(high, 0)) for low, high in widths]
    less = [(min(low, 0), min(high, 0), 0) for low, high in widths]
    if mode == "circular":  # what is cut off is no part of the circle
        return jnp.pad(lax.pad(self, strong(0, self), less), more, mode=_MODES[mode])
    return lax.pad(jnp.pad(self, more, mode=_MODES[mode]), strong(0, self), less)


def _find_widths(self: Any, pad: Sequence[int]) -> list[tuple[int, int]]:
    """Returns how many items come before and after those of each axis."""
    if len(pad) % 2 or len(pad) > 2 * self.ndim:
        raise ArgumentError(
            "padding length must be divisible by 2 and at most twice the number of dims",
            "Give the numbers before and after, the last axis first.",
        )
    widths = [(0, 0)] * self.ndim
    for index in range(len(pad) // 2):
        widths[self.ndim - 1 - index] = (pad[2 * index], pad[2 * index + 1])
    if any(size + low + high < 0 for size, (low, high) in zip(self.shape, widths, strict=True)):
        raise ArgumentError("an axis loses all its items", "Take less away.")
    return widths


def _check_sizes(self: Any, pad: Sequence[int], mode: str, widths: Sequence[tuple[int, int]]) -> None:
    """Checks that there are enough items to repeat."""
    count = len(pad) // 2
    if mode != "circular" and 0 in self.shape[max(self.ndim - count - 1, 0) :]:
        raise ArgumentError(
            "expected channels and places of a size other than 0", "Only the batch may be empty."
        )
    for (low, high), size in list(zip(widths, self.shape, strict=True))[self.ndim - count :]:
        limit = {"reflect": size - 1, "circular": size}.get(mode, math.inf)
        if max(low, high) > limit:
            raise ArgumentError(
                "padding size should be less than the corresponding input dimension", "Pad less."
            )


def _check_mode(self: Any, pad: Sequence[int], mode: str, value: complex | None) -> None:
    """Checks torch's conditions for the modes that repeat items."""
    if value is not None and value != 0:
        raise ArgumentError(f"mode {mode!r} doesn't take in a value argument", "Leave it out.")
    if self.ndim - len(pad) // 2 not in (1, 2):
        raise UnsupportedArgumentError(
            f"with mode={mode!r} all axes except the first one or two are padded",
            "Give two numbers for each of these axes, or reshape.",
        )


def _pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    factor = upscale_factor
    _check_pixels(self, factor)
    if self.shape[-3] % factor**2:
        raise ArgumentError(
            "expects its input's 'channel' dimension to be divisible by the square of upscale_factor",
            "Choose another factor.",
        )
    channels, height, width = self.shape[-3] // factor**2, *self.shape[-2:]
    parts = channels, factor, factor, height, width
    return _move_pixels(self, parts, (3, 1, 4, 2), (channels, height * factor, width * factor))


def _check_pixels(self: Any, factor: int) -> None:
    if self.ndim < 3 or factor < 1:
        raise ArgumentError(
            "expects a positive factor and input with at least 3 dimensions", "Add an axis with unsqueeze."
        )


def _pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    factor = downscale_factor
    _check_pixels(self, factor)
    if self.shape[-2] % factor or self.shape[-1] % factor:
        raise ArgumentError(
            "expects height and width to be divisible by downscale_factor", "Choose another factor."
        )
    channels, height, width = self.shape[-3], self.shape[-2] // factor, self.shape[-1] // factor
    parts = channels, height, factor, width, factor
    return _move_pixels(self, parts, (2, 4, 1, 3), (channels * factor**2, height, width))


def _move_pixels(self: Any, parts: Sequence[int], order: Sequence[int], shape: Sequence[int]) -> Any:
    """Splits the last three axes into parts, reorders those behind the first, and joins them to a shape."""
    *lead, _, _, _ = self.shape
    count = len(lead)
    turned = [*range(count + 1), *(count + place for place in order)]
    return lax.reshape(lax.transpose(lax.reshape(self, (*lead, *parts)), turned), (*lead, *shape))


def _channel_shuffle(input: Any, groups: int) -> Any:
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ArgumentError(
            "expects at least 3 dimensions; groups must be positive, and the channels divisible by groups",
            "Choose a divisor.",
        )
    count, channels, *rest = input.shape
    parts = lax.reshape(input, (count, groups, channels // groups, *rest))
    return lax.reshape(jnp.swapaxes(parts, 1, 2), input.shape)


# Joined -----------------------------------------------------------------------------------------------------


def _join(join: Any, tensors: Sequence[Any]) -> Any:
    if not tensors:
        raise ArgumentError("expects a non-empty list of tensors", "Give at least one.")
    dtype = jnp.result_type(*tensors) if len({tensor.dtype for tensor in tensors}) > 1 else tensors[0].dtype
    try:
        return join([lax.convert_element_type(tensor, dtype) for tensor in tensors])
    except (TypeError, ValueError):
        raise ArgumentError(
            "sizes of tensors must match except in the dimension they are joined along",
            "Reshape one of them.",
        ) from None


def _place_blocks(tensors: Sequence[Any]) -> Any:
    blocks = [jnp.atleast_2d(tensor) for tensor in tensors]
    if any(block.ndim > 2 for block in blocks):
        raise ArgumentError("input tensors must have 2 or fewer dimensions", "Give matrices.")
    return compute_on_cpu(_pad_blocks, by=_write_blocks)(*blocks)


def _pad_blocks(*blocks: Any) -> Any:
    """Joins padded blocks; the gradient of a block is a slice."""
    width, column, rows = sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        end = column + block.shape[1]
        rows.append(lax.pad(block, jnp.zeros((), block.dtype), ((0, 0, 0), (column, width - end, 0))))
        column = end
    return lax.concatenate(rows, 0)


def _write_blocks(*blocks: Any) -> Any:
    sizes = zip(*[block.shape for block in blocks], strict=True)
    matrix, row, column = jnp.zeros(tuple(map(sum, sizes)), blocks[0].dtype), 0, 0
    for block in blocks:
        matrix = lax.dynamic_update_slice(matrix, block, (row, column))
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix


ROWS = (
    Row(
        "repeat(Tensor self, int[] repeats) -> Tensor",
        _repeat,
        "the items, repeated along each axis",
        source="torch.Tensor.repeat",
        variadic="repeats",
    ),
    Row(
        "tile(Tensor self, int[] dims) -> Tensor",
        _tile,
        "the items, repeated along the last axes",
        variadic="dims",
    ),
    Row(
        "repeat_interleave(Tensor self, int repeats, int? dim=None) -> Tensor",
        _repeat_interleave,
        "each item repeated, along a dim or flat",
    ),
    Row(
        "flip(Tensor self, int[] dims) -> Tensor",
        _flip,
        "the items, mirrored along given axes",
        result="shape",
        variadic="dims",
    ),
    *(
        Row(
            f"{op}(Tensor self) -> Tensor",
            partial(_flip_axis, axis),
            f"the items, mirrored along axis {axis}",
            result="shape",
        )
        for op, axis in (("fliplr", 1), ("flipud", 0))
    ),
    Row(
        "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
        _roll,
        "the items, shifted cyclically along axes",
        result="shape",
    ),
    Row(
        "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
        _rot90,
        "the items, rotated by right angles",
    ),
    *(
        Row(
            f"{op}(Tensor self, int diagonal=0) -> Tensor",
            partial(_cut_triangle, cut),
            f"the matrix with 0 {where} a diagonal",
            in_place=True,
            result="shape",
            exact_out=True,
        )
        for op, cut, where in (("tril", jnp.tril, "above"), ("triu", jnp.triu, "below"))
    ),
    Row(
        "diag(Tensor self, int diagonal=0) -> Tensor",
        _diag,
        "diagonal of a matrix, or the matrix with a given diagonal",
        exact_out=True,
    ),
    Row(
        "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
        _diag_embed,
        "matrices with given diagonals",
    ),
    NetworkRow(
        "pad(Tensor self, int[] pad, str mode='constant', Scalar? value=None) -> Tensor",
        _pad,
        "the tensor with more items at the ends of axes, from the last axis on",
    ),
    NetworkRow(
        "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
        _pixel_shuffle,
        "the image with channels converted to pixels",
    ),
    NetworkRow(
        "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
        _pixel_unshuffle,
        "the image with pixels converted to channels",
    ),
    NetworkRow(
        "channel_shuffle(Tensor input, int groups) -> Tensor",
        _channel_shuffle,
        "the channels, reordered to take one from each group in turn",
    ),
    Row(
        "hstack(Tensor[] tensors) -> Tensor",
        partial(_join, jnp.hstack),
        "tensors joined along axis 1",
        out=True,
    ),
    Row(
        "vstack(Tensor[] tensors) -> Tensor",
        partial(_join, jnp.vstack),
        "tensors joined along axis 0",
        out=True,
        aliases=("row_stack",),
    ),
    Row(
        "dstack(Tensor[] tensors) -> Tensor",
        partial(_join, jnp.dstack),
        "tensors joined along axis 2",
        out=True,
    ),
    Row(
        "column_stack(Tensor[] tensors) -> Tensor",
        partial(_join, jnp.column_stack),
        "tensors joined along axis 1; vectors are columns",
        out=True,
    ),
    Row(
        "diagflat(Tensor self, int offset=0) -> Tensor",
        lambda self, offset: jnp.diag(jnp.ravel(self), offset),
        "a matrix with the items on a diagonal",
    ),
    Row("block_diag(Tensor[] tensors) -> Tensor", partial(_join, _place_blocks), "matrices along a diagonal"),
)
