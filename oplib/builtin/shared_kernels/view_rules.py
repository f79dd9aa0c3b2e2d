"""The frames of the view ops: from the shape of a tensor and the arguments to the items of the view.

A rule ``rule(spec, *args)`` returns a frame and its starts. ``spec`` is any object with a shape: an array, or
a storage that has not been read. The same frames are the kernels on arrays, so Tensors and arrays agree.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from oplib.builtin.rows.row import Function
from oplib.errors import ArgumentError, DimensionError
from oplib.tensor.dtypes.rules import COMPLEX
from oplib.tensor.shapes.symbolic import has_symbols
from oplib.tensor.views import (
    Chain,
    Diagonal,
    Frame,
    Pairs,
    Reshape,
    ViewStorage,
    Window,
    can_view,
    make_chain,
    make_window,
)

from .dims import find_dim, name_indices

Shape = tuple[int, ...]
Part = tuple[Frame | Chain, tuple[int, ...]]
Rule = Function


class Several(NamedTuple):
    """The result of the rule of an op with several views.

    Attributes:
        parts: the frame and starts of each view.
        joined_by: the inverse of the op, ``"stack"`` or ``"concatenate"``.
        dim: the axis.
    """

    parts: list[Part]
    joined_by: str
    dim: int


def make_view_kernel(rule: Rule) -> Function:
    """Makes the function of arrays that selects the items of a rule."""

    def kernel(self: Any, *args: Any) -> Any:
        part = rule(self, *args)
        if isinstance(part, Several):
            return [frame.get(self, starts) for frame, starts in part.parts]
        frame, starts = part
        return frame.get(self, starts)

    return kernel


class Itself:
    """The result of the rule of an op that returns its tensor."""


# Windows over whole axes ------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def rearrange(shape: Shape, axes: tuple[int | None, ...], sizes: Shape | None = None) -> Window:
    """Returns the window that shows whole axes in another order; None is a new axis.

    Args:
        shape: the shape of the tensor.
        axes: for each axis of the view, the axis of the tensor.
        sizes: the shape of the view, if axes of length 1 are repeated.
    """
    shown = tuple(1 if axis is None else shape[axis] for axis in axes) if sizes is None else sizes
    if sizes is not None and not has_symbols(sizes) and math.prod(sizes) >= 2**63:
        raise ArgumentError("a tensor has less than 2**63 items", "Choose smaller ones.")
    return make_window(shape, shape, (1,) * len(shape), axes, shown)


def alias(spec: Any) -> Part:
    """Returns the frame of the whole tensor."""
    shape = tuple(spec.shape)
    return rearrange(shape, tuple(range(len(shape)))), ()


def transpose(spec: Any, dim0: int, dim1: int) -> Part:
    """Exchanges two axes."""
    shape = tuple(spec.shape)
    order = list(range(len(shape)))
    first, second = find_dim(len(shape), dim0), find_dim(len(shape), dim1)
    if order:
        order[first], order[second] = order[second], order[first]
    return rearrange(shape, tuple(order)), ()


def t(spec: Any) -> Part:
    """Transposes a matrix."""
    if len(spec.shape) > 2:
        raise ArgumentError("expects a tensor with at most 2 dimensions", "Use transpose(dim0, dim1).")
    return reverse(spec)


def reverse(spec: Any) -> Part:
    """Reverses the order of all axes."""
    shape = tuple(spec.shape)
    return rearrange(shape, tuple(reversed(range(len(shape))))), ()


def permute(spec: Any, dims: Sequence[int]) -> Part:
    """Arranges the axes in a given order."""
    shape = tuple(spec.shape)
    order = tuple([find_dim(len(shape), dim) for dim in dims])
    if sorted(order) != list(range(len(shape))):
        raise ArgumentError("the dims must name each dimension once", f"Give all {len(shape)} of them.")
    return rearrange(shape, order), ()


def movedim(spec: Any, source: Sequence[int] | int, destination: Sequence[int] | int) -> Part:
    """Moves some axes to given positions; the others keep their order."""
    count = len(spec.shape)
    listed = ([dims] if isinstance(dims, int) else dims for dims in (source, destination))
    start, end = ([find_dim(count, dim) for dim in dims] for dims in listed)
    if len(start) != len(end) or len(set(start)) < len(start) or len(set(end)) < len(end):
        raise ArgumentError("source and destination name as many dims, each once", "Name each dim once.")
    rest = iter([dim for dim in range(count) if dim not in start])
    order = tuple([start[end.index(dim)] if dim in end else next(rest) for dim in range(count)])
    return rearrange(tuple(spec.shape), order), ()


def squeeze(spec: Any, dim: Sequence[int] | int | None = None) -> Part:
    """Removes axes of length 1."""
    shape = tuple(spec.shape)
    dims = [dim] if isinstance(dim, int) else dim
    chosen = range(len(shape)) if dims is None else {find_dim(len(shape), number) for number in dims}
    kept = tuple([axis for axis, length in enumerate(shape) if length != 1 or axis not in chosen])
    return rearrange(shape, kept), ()


def unsqueeze(spec: Any, dim: int) -> Part:
    """Inserts an axis of length 1."""
    shape = tuple(spec.shape)
    index = find_dim(len(shape) + 1, dim)
    axes = (*range(index), None, *range(index, len(shape)))
    return rearrange(shape, axes), ()


def expand(spec: Any, size: Sequence[int]) -> Part:
    """Repeats axes of length 1, and adds new axes."""
    own = tuple(spec.shape)
    lead = len(size) - len(own)
    lengths = (*[None] * lead, *own)
    shape = tuple([have if want == -1 else want for have, want in zip(lengths, size, strict=False)])
    fits = lead >= 0 and all(
        want is not None and (want == have or have in (None, 1))
        for have, want in zip(lengths, shape, strict=True)
    )
    if not fits:
        raise ArgumentError(
            "the sizes must match the existing sizes that are not 1", "Use -1 to keep a size."
        )
    return rearrange(own, (*[None] * lead, *range(len(own))), shape), ()


# Windows over a part of an axis -----------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def cut(shape: Shape, dim: int, length: int, step: int) -> Window:
    """Returns the window of ``length`` items of one axis, every ``step``-th."""
    sizes = (*shape[:dim], length, *shape[dim + 1 :])
    steps = (*(1,) * dim, step if length > 1 else 1, *(1,) * (len(shape) - dim - 1))
    return make_window(shape, sizes, steps, tuple(range(len(shape))), sizes)


@lru_cache(maxsize=2048)
def pick(shape: Shape, dim: int) -> Window:
    """Returns the window of one position of an axis, without that axis."""
    sizes = (*shape[:dim], 1, *shape[dim + 1 :])
    axes = tuple([axis for axis in range(len(shape)) if axis != dim])
    return make_window(shape, sizes, (1,) * len(shape), axes, (*shape[:dim], *shape[dim + 1 :]))


def select(spec: Any, dim: int, index: Any) -> Part:
    """Selects the items at one position of an axis."""
    shape = tuple(spec.shape)
    if not shape:
        raise DimensionError("it cannot be applied to a 0-dim tensor", "Use the tensor itself.")
    axis = find_dim(len(shape), dim)
    position, length = operator.index(index), shape[axis]
    if not -length <= position < length:
        raise DimensionError(
            f"index {position} is out of bounds for dimension {axis} with size {length}", name_indices(length)
        )
    return pick(shape, axis), (position % length,) if length > 1 else ()


def narrow(spec: Any, dim: int, start: int, length: int) -> Part:
    """Selects consecutive items of an axis."""
    shape = tuple(spec.shape)
    if not shape:
        raise ArgumentError("it cannot be applied to a 0-dim tensor", "Use the tensor itself.")
    axis = find_dim(len(shape), dim)
    whole = shape[axis]
    if not -whole <= start <= whole:
        raise DimensionError(
            f"start is out of range (expected to be in range of [{-whole}, {whole}], but got {start})",
            "Count from 0, or from the end from -1.",
        )
    first = start + whole if start < 0 else start
    if length < 0 or first + length > whole:
        raise ArgumentError(
            f"start ({first}) + length ({length}) exceeds dimension size ({whole})",
            f"Take at most {whole - first} items.",
        )
    return cut_at(shape, axis, first, length)


def cut_at(shape: Shape, dim: int, start: int, length: int) -> Part:
    """Selects items of an axis from a valid position on."""
    window = cut(shape, dim, length, 1)
    return window, (start if length else 0,) if window.start_count else ()


# Shapes -----------------------------------------------------------------------------------------------------


def fill_in_length(spec: Any, shape: Sequence[int]) -> Shape:
    """Replaces a length of -1 by its value."""
    size = math.prod(spec.shape)
    known = math.prod(length for length in shape if length != -1)
    is_open = shape.count(-1)
    fits = known != 0 and size % known == 0 if is_open else known == size
    if is_open > 1 or any(length < -1 for length in shape) or not fits:
        raise ArgumentError(
            f"shape {list(shape)} is invalid for an input of {size} items",
            "Keep the number of items; one length may be -1.",
        )
    return tuple([size // known if length == -1 else length for length in shape])


def reshape(spec: Any, shape: Shape) -> Part | None:
    """Returns the frame of another shape; None if the memory layout forces torch to copy."""
    own = tuple(spec.shape)
    if own == shape:
        return alias(spec)
    if isinstance(spec, ViewStorage) and not can_view(own, spec.layout[0], shape):
        return None
    return Reshape.between(own, shape), ()


def view(spec: Any, shape: Sequence[int]) -> Part:
    """Returns the frame of another shape of the same memory."""
    window = reshape(spec, fill_in_length(spec, shape))
    if window is None:
        raise ArgumentError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces)",
            "Use .reshape(...) instead.",
        )
    return window


def flat_shape(spec: Any, start_dim: int = 0, end_dim: int = -1) -> Shape:
    """Returns the shape in which consecutive axes are joined."""
    shape = tuple(spec.shape)
    first, last = find_dim(len(shape), start_dim), find_dim(len(shape), end_dim)
    if first > last:
        raise ArgumentError("start_dim cannot come after end_dim", "Exchange them.")
    return (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])


def unflat_shape(spec: Any, dim: int, sizes: Sequence[int]) -> Shape:
    """Returns the shape in which one axis is split."""
    shape = tuple(spec.shape)
    axis = find_dim(len(shape), dim)
    known = math.prod(length for length in sizes if length != -1)
    whole = shape[axis]
    filled = [whole // known if length == -1 and known else length for length in sizes]
    if math.prod(filled) != whole or list(sizes).count(-1) > 1:
        raise ArgumentError(
            f"provided sizes {list(sizes)} don't multiply up to the size of dim {axis} ({whole})",
            "One size may be -1.",
        )
    return (*shape[:axis], *filled, *shape[axis + 1 :])


def diagonal(spec: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Part:
    """Returns the frame of the diagonal of two axes."""
    shape = tuple(spec.shape)
    first, second = find_dim(len(shape), dim1), find_dim(len(shape), dim2)
    if first == second:
        raise ArgumentError("dimensions cannot be identical", "Name two.")
    return Diagonal.of(shape, offset, first, second), ()


# Complex numbers --------------------------------------------------------------------------------------------


def view_as_real(spec: Any) -> Part:
    """Returns the frame of complex numbers as pairs."""
    _require_complex(spec)
    return Pairs.of(tuple(spec.shape), joins=False), ()


def view_as_complex(spec: Any) -> Part:
    """Returns the frame of pairs as complex numbers."""
    shape = tuple(spec.shape)
    if spec.dtype.name not in {"float32", "float64"} or not shape or shape[-1] != 2:
        raise ArgumentError(
            "it is only supported for float32 and float64 tensors whose last dimension has size 2",
            "Stack real and imaginary parts along a last dimension.",
        )
    return Pairs.of(shape, joins=True), ()


def _require_complex(spec: Any) -> None:
    if spec.dtype not in COMPLEX:
        raise ArgumentError("it is only supported for complex tensors", "Convert it first.")


def real(spec: Any) -> Part | Itself:
    """Returns the frame of the real parts, or a real tensor itself."""
    return _take_part(spec, 0) if spec.dtype in COMPLEX else Itself()


def imag(spec: Any) -> Part:
    """Returns the frame of the imaginary parts."""
    _require_complex(spec)
    return _take_part(spec, 1)


def _take_part(spec: Any, which: int) -> Part:
    shape = tuple(spec.shape)
    pairs = Pairs.of(shape, joins=False)
    return make_chain((pairs, pick(pairs.shape, len(shape)))), (which,)
