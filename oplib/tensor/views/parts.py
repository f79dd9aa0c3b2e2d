"""Frames that read items as another dtype: complex numbers as pairs of real ones, and bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax import lax

from .frame import Frame, Layout, Merge, Shape, Starts
from .reshape import Reshape

_TO_REAL = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_TO_COMPLEX = {real: pair for pair, real in _TO_REAL.items()}


class _ViewPart(Frame):
    """The base of both frames. Make a frame with :meth:`of`."""

    __slots__ = ()

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape) -> Self:
        """Returns the frame for a whole of this shape."""
        return cls(in_shape)

    def __init__(self, in_shape: Shape) -> None:
        self.in_shape = self.shape = in_shape

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.in_shape)


class AsReal(_ViewPart):
    """Shows complex numbers as pairs of real numbers, along a new last axis."""

    __slots__ = ()

    def __init__(self, in_shape: Shape) -> None:
        self.in_shape, self.shape = in_shape, (*in_shape, 2)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return jnp.stack([lax.real(whole), lax.imag(whole)], axis=-1)

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return lax.complex(part[..., 0], part[..., 1])

    def part_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _TO_REAL[dtype]

    def whole_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _TO_COMPLEX[dtype]

    def merge(self, later: Frame) -> Merge | None:  # noqa: D102
        if isinstance(later, AsComplex):
            return _nothing(self.in_shape)
        return None

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        return (*[2 * stride for stride in strides], 1), 2 * offset


class AsComplex(_ViewPart):
    """Shows pairs of real numbers along the last axis as complex numbers."""

    __slots__ = ()

    def __init__(self, in_shape: Shape) -> None:
        self.in_shape, self.shape = in_shape, in_shape[:-1]

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return lax.complex(whole[..., 0], whole[..., 1])

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        return jnp.stack([lax.real(part), lax.imag(part)], axis=-1)

    def part_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _TO_COMPLEX[dtype]

    def whole_dtype(self, dtype: Any) -> Any:  # noqa: D102
        return _TO_REAL[dtype]

    def merge(self, later: Frame) -> Merge | None:  # noqa: D102
        if isinstance(later, AsReal):
            return _nothing(self.in_shape)
        return None

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        strides, offset = layout
        return tuple([stride // 2 for stride in strides[:-1]]), offset // 2


def _nothing(shape: Shape) -> Merge:
    """Returns the frame that shows the whole unchanged."""
    return Reshape.between(shape, shape), lambda own, others: own + others


def _restore(cls: type[_ViewPart], in_shape: Shape) -> _ViewPart:
    return cls.of(in_shape)


class AsDtype(Frame):
    """Shows the same bits as items of another dtype. If the item sizes differ, the last axis changes.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_from", "_to")

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape, dtype: Any, new: Any) -> AsDtype:
        """Returns the frame for a whole of this shape and dtype, whose last axis must fit."""
        return cls(in_shape, dtype, new)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return AsDtype.of, (self.in_shape, self._from, self._to)
