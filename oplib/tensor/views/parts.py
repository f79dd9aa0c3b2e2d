"""Frames that read items as another dtype: complex numbers as pairs of real ones, and bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .frame import Frame, Layout, Merge, Shape, SharedFrame, Starts
from .reshape import Reshape

_TO_REAL = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_OTHER = _TO_REAL | {real: pair for pair, real in _TO_REAL.items()}


class Pairs(SharedFrame):
    """Shows complex numbers as pairs of real ones along a new last axis, or such pairs as complex numbers.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_joins",)

    def __init__(self, in_shape: Shape, *, joins: bool) -> None:
        self.in_shape = in_shape
        self.shape = in_shape[:-1] if joins else (*in_shape, 2)
        self._joins = joins

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return _join(whole) if self._joins else _split(whole)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return _split(part) if self._joins else _join(part)

    def part_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _OTHER[dtype]

    def whole_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _OTHER[dtype]

    def merge(self, later: Frame) -> Merge | None:  # noqa: D102
        if not isinstance(later, Pairs) or later._joins is self._joins:
            return None
        return Reshape.between(self.in_shape, self.in_shape), lambda own, others: own + others

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        if self._joins:
            return tuple([stride // 2 for stride in strides[:-1]]), offset // 2
        return (*[2 * stride for stride in strides], 1), 2 * offset


def _split(numbers: Any) -> Any:
    return jnp.stack([lax.real(numbers), lax.imag(numbers)], axis=-1)


def _join(pairs: Any) -> Any:
    return lax.complex(pairs[..., 0], pairs[..., 1])


class AsDtype(SharedFrame):
    """Shows the same bits as items of another dtype. If the item sizes differ, the last axis changes.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_from", "_to")

    def __init__(self, in_shape: Shape, dtype: Any, new: Any) -> None:
        self.in_shape = in_shape
        self._from, self._to = dtype, new
        same = dtype.itemsize == new.itemsize
        last = () if same else (in_shape[-1] * dtype.itemsize // new.itemsize,)
        self.shape = in_shape if same else (*in_shape[:-1], *last)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return whole.view(self._to)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return part.view(self._from)

    def part_dtype(self, dtype: Any) -> Any:  # noqa: ARG002, D102
        return self._to

    def whole_dtype(self, dtype: Any) -> Any:  # noqa: ARG002, D102
        return self._from

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        old, new = self._from.itemsize, self._to.itemsize
        if old == new:
            return layout
        return (*[stride * old // new for stride in strides[:-1]], 1), offset * old // new
