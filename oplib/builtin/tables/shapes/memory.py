"""Views of memory: overlapping windows, strides, and bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.view_rules import Part, make_view_kernel, rearrange
from oplib.builtin.viewing import make_viewer
from oplib.errors import ArgumentError
from oplib.tensor import Tensor
from oplib.tensor.dtypes.rules import normalize_dtype
from oplib.tensor.views import AsDtype, Sliding, Strided, ViewStorage
from oplib.tensor.views.frame import contiguous_strides


def unfold(spec: Any, dimension: int, size: int, step: int) -> Part:
    """Returns the frame of the windows of an axis, along a new last axis."""
    own = tuple(spec.shape)
    axis, shape = find_dim(len(own), dimension), own or (1,)
    if size < 0 or step < 1:
        raise ArgumentError(
            "size must be >= 0 and step > 0", "Give a size of at least 0 and a step of at least 1."
        )
    if size > shape[axis]:
        raise ArgumentError(
            f"maximum size for tensor at dimension {axis} is {shape[axis]} but size is {size}",
            "Take a smaller window.",
        )
    if not own:
        return _as_strided(spec, (0,), (1,), 0) if not size else (rearrange((), (None,), (1,)), ())
    return Sliding.of(shape, axis, size, step), ()


def as_strided(
    spec: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Part:
    """Returns the frame of items by strides of torch's memory, if the tensor shows these items."""
    layout = _find_layout(spec)
    offset = layout[1] if storage_offset is None else storage_offset
    if len(size) != len(stride) or any(number < 0 for number in (*size, *stride, offset)):
        raise ArgumentError(
            "sizes, strides and offset are not negative, and there is one stride for each size",
            "Give as many of both.",
        )
    return _as_strided(spec, tuple(size), tuple(stride), offset)


def _as_strided(spec: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Part:
    layout = _find_layout(spec)
    frame = Strided.of(tuple(spec.shape), layout, size, (stride, offset))
    if frame is None:
        raise ArgumentError(
            f"sizes {list(size)}, strides {list(stride)} and storage offset {offset} are out of bounds for "
            f"the tensor, with strides {list(layout[0])} and offset {layout[1]}",
            "Use a tensor that contains all of these items, such as its base.",
        )
    return frame, ()


def _find_layout(spec: Any) -> tuple[tuple[int, ...], int]:
    return spec.layout if isinstance(spec, ViewStorage) else (contiguous_strides(tuple(spec.shape)), 0)


def view_dtype(spec: Any, dtype: Any) -> Part:
    """Returns the frame of the same bits as items of another dtype."""
    new, shape, old = normalize_dtype(dtype), tuple(spec.shape), spec.dtype
    if new.itemsize != old.itemsize:
        _check_bits(spec, new, _find_layout(spec))
    return AsDtype.of(shape, old, new), ()


def _check_bits(spec: Any, new: Any, layout: tuple[tuple[int, ...], int]) -> None:
    shape, (strides, offset) = tuple(spec.shape), layout
    what = f"to view {spec.dtype.name} as {new.name} (different element sizes)"
    if not shape:
        raise ArgumentError(f"the tensor cannot have 0 dims {what}", "Add one: unsqueeze(0).")
    if strides[-1] != 1:
        raise ArgumentError(
            f"stride(-1) must be 1 {what}, and is {strides[-1]}", "Make it contiguous: contiguous()."
        )
    ratio = max(new.itemsize // spec.dtype.itemsize, 1)
    if any(number % ratio for number in (shape[-1], offset, *strides[:-1])):
        raise ArgumentError(
            f"size(-1), the other strides and the offset must be divisible by {ratio} {what}; the strides "
            f"are {list(strides)}, and the offset is {offset}",
            "Clone it, or pad the last axis.",
        )


_BITS = constant("bits are piecewise constant in the items")
ROWS = (
    Row(
        "unfold(Tensor self, int dimension, int size, int step) -> Tensor",
        make_view_kernel(unfold),
        "windows of a dimension at a fixed step, along a new last dimension",
        view=unfold,
        source="torch.Tensor.unfold",
        is_internal=True,
    ),
    Row(
        "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
        make_view_kernel(as_strided),
        "items of the tensor's memory, selected by strides and offset",
        view=as_strided,
        in_place_functions=("as_strided_",),
    ),
    Row(
        "view.dtype(Tensor self, ScalarType dtype) -> Tensor",
        make_view_kernel(view_dtype),
        "the same bits as items of another dtype",
        view=view_dtype,
        derivative=_BITS,
        source="torch.Tensor.view",
    ),
)


def make_view_dtype(overload: Any) -> Any:
    """Makes ``view(input, dtype)``, whose result has no history, because bits have no gradient."""
    look = make_viewer(view_dtype, "View", overload)

    def function(input: Any, dtype: Any) -> Any:
        return look(input.detach(), dtype) if isinstance(input, Tensor) else overload.call(input, dtype)

    return function
