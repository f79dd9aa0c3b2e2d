"""Creation: constant items, and the ops that fill a tensor in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels.promotion import broadcast_to, convert_saturated
from oplib.errors import ArgumentError
from oplib.tensor.dtypes.rules import COMPLEX

_NEW = constant("the items do not depend on those of the argument")


def _full(value: int) -> Any:
    return lambda self, *, dtype=None: lax.full(self.shape, value, dtype or self.dtype)


def store(value: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Broadcasts a value to the shape and converts it to the dtype in which it is stored.

    Raises:
        ArgumentError: it does not broadcast to the shape, or is complex for a real dtype.
    """
    shape = tuple(shape)
    if value.dtype in COMPLEX and dtype not in COMPLEX:
        raise ArgumentError("a complex value cannot be stored in a real tensor", "Take its real part.")
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = lax.squeeze(value, (0,))
    lead = len(shape) - value.ndim
    if lead < 0 or any(have not in (1, want) for have, want in zip(value.shape, shape[lead:], strict=True)):
        raise ArgumentError("the value does not broadcast to the shape it is stored in", "Reshape it.")
    return broadcast_to(convert_saturated(value, dtype), shape)


def _copy() -> Any:
    """Returns the kernel that copies a tensor into the dtype and shape of another; its further dims stay."""
    return lambda self, src: store(src, src.shape[: max(src.ndim - self.ndim, 0)] + self.shape, self.dtype)


def _stored(self: Any, shape: Sequence[int], dtype: Any) -> Any:
    return store(self, shape, dtype)


ROWS = (
    Row(
        "zeros_like(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        _full(0),
        "zeros in the shape of a tensor",
        derivative=_NEW,
        result="shape",
        is_internal=True,
    ),
    Row(
        "ones_like(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        _full(1),
        "ones in the shape of a tensor",
        derivative=_NEW,
        result="shape",
        is_internal=True,
    ),
    Row(
        "zero(Tensor self) -> Tensor",
        _full(0),
        "zeros instead of the items",
        is_uniform=True,
        source="torch.Tensor.zero_",
        is_internal=True,
        in_place_functions=("zero_",),
    ),
    Row(
        "fill.Scalar(Tensor self, Scalar value) -> Tensor",
        _copy(),
        "one value instead of the items",
        operand=("value",),
        is_uniform=True,
        in_place_functions=("fill_",),
    ),
    Row("fill.Tensor(Tensor self, Tensor value) -> Tensor", _copy(), "one value instead of the items"),
    Row(
        "stored(Tensor self, int[] shape, ScalarType dtype) -> Tensor",
        _stored,
        "the items in a given shape and dtype",
        source="torch.Tensor.__setitem__",
        is_internal=True,
    ),
    Row(
        "copy(Tensor self, Tensor src) -> Tensor",
        _copy(),
        "the items of another tensor",
        in_place=True,
        source="torch.Tensor.copy_",
        is_internal=True,
    ),
)
