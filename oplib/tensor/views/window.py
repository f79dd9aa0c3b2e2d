"""Windows: some items along each axis, with the axes in another order. Two windows merge into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer
from jax.sharding import AxisType

from oplib.protocols import Values
from oplib.tensor.shapes.broadcasting import broadcast_in_dim

from .frame import Frame, Layout, Merge, Shape, Starts


class Window(Frame):
    """Takes items at fixed steps along each axis, then drops, permutes, adds and repeats axes.

    Make a frame with :func:`make_window`.

    Attributes:
        sizes: for each axis of the whole, the number of items taken.
        steps: their distances.
        axes: for each axis of the part, the axis of the whole that it is, or None for a new one. Dropped axes
            of the whole have size 1.
        moving: the axes of the whole of which not all items are taken. Each has a start.
    """

    __slots__ = (
        "_dropped", "_has_steps", "_kept", "_shown", "_spans", "axes", "is_identity", "is_injective",
        "moving", "sizes", "start_count", "steps",
    )  # fmt: skip

    def __init__(
        self, in_shape: Shape, sizes: Shape, steps: Shape, axes: tuple[int | None, ...], shape: Shape
    ) -> None:
        self.in_shape, self.shape = in_shape, shape
        self.sizes, self.steps, self.axes = sizes, steps, axes
        self.moving = tuple([axis for axis, size in enumerate(sizes) if size != in_shape[axis]])
        self.start_count = len(self.moving)
        self._spans = tuple(
            [(size - 1) * step + 1 if size else 0 for size, step in zip(sizes, steps, strict=True)]
        )
        self._has_steps = any(step != 1 for step in steps)
        self._kept = [axis for axis in axes if axis is not None]
        self._dropped = [axis for axis in range(len(in_shape)) if axis not in self._kept]
        self._shown = [index for index, axis in enumerate(axes) if axis is not None]
        self.is_injective = not any(self._repeats(index) and size > 1 for index, size in enumerate(shape))
        self.is_identity = shape == in_shape and not self.moving and axes == tuple(range(len(in_shape)))

    def __reduce__(self) -> Values:
        return make_window, (self.in_shape, self.sizes, self.steps, self.axes, self.shape)

    def _repeats(self, index: int) -> bool:
        """Returns whether an axis of the part shows one item of the whole several times."""
        axis = self.axes[index]
        return self.shape[index] != (1 if axis is None else self.sizes[axis])

    def invert(self) -> Window | None:  # noqa: D102  described in Frame, like the methods below
        if self.moving or self._has_steps or any(map(self._repeats, range(len(self.shape)))):
            return None
        axes = [self.axes.index(axis) if axis in self.axes else None for axis in range(len(self.in_shape))]
        return make_window(self.shape, self.shape, (1,) * len(self.shape), tuple(axes), self.in_shape)

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: D102
        part = self._cut(whole, starts) if self.moving else whole
        if self._dropped or self._kept != list(range(len(self._kept))):
            part = lax.transpose(part, (*self._kept, *self._dropped))
            part = lax.squeeze(part, tuple(range(len(self._kept), part.ndim)))
        if part.shape == self.shape:
            return part
        spread = lax.broadcast_in_dim if self.is_injective else broadcast_in_dim
        return spread(part, self.shape, self._shown)

    def _cut(self, whole: Any, starts: Sequence[Any]) -> Any:
        full = self._spread(starts)
        if _are_static(starts):
            limits = [start + span for start, span in zip(full, self._spans, strict=True)]
            return lax.slice(whole, full, limits, self.steps)
        block = lax.dynamic_slice(whole, _to_indices(full), self._spans)
        return lax.slice(block, [0] * block.ndim, self._spans, self.steps) if self._has_steps else block

    def _spread(self, starts: Sequence[Any]) -> list[Any]:
        """Returns a start for each axis of the whole."""
        full: list[Any] = [0] * len(self.in_shape)
        for axis, start in zip(self.moving, starts, strict=True):
            full[axis] = start
        return full

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: D102
        fresh = [index for index, axis in enumerate(self.axes) if axis is None]
        part = lax.expand_dims(lax.squeeze(part, fresh), range(len(self._kept), len(self.in_shape)))
        order = [*self._kept, *self._dropped]
        part = lax.transpose(part, list(map(order.index, range(len(order)))))
        if not self.moving and not self._has_steps:
            return part
        full = self._spread(starts)
        if _are_static(starts) and is_partitioned(whole):  # XLA would gather the whole
            return _select_into(whole, part, full, self.steps)
        if self._has_steps:
            block = lax.dynamic_slice(whole, _to_indices(full), self._spans)
            part = _select_into(block, part, [0] * part.ndim, self.steps)
        return lax.dynamic_update_slice(whole, part, _to_indices(full))

    def merge(self, later: Frame) -> Merge | None:  # noqa: D102
        if not isinstance(later, Window):
            return None
        sizes, steps = list(self.sizes), list(self.steps)
        second = {axis: index for index, axis in enumerate(later.moving)}
        sources: dict[int, int] = {}  # axis of the whole -> start of the later window that moves along it
        for index, axis in enumerate(self.axes):
            if axis is not None and not self._repeats(index):
                sizes[axis] = later.sizes[index]
                steps[axis] = self.steps[axis] * later.steps[index] if sizes[axis] > 1 else 1
                if index in second:
                    sources[axis] = second[index]
        axes = tuple([None if index is None else self.axes[index] for index in later.axes])
        merged = make_window(self.in_shape, tuple(sizes), tuple(steps), axes, later.shape)
        first = {axis: index for index, axis in enumerate(self.moving)}
        recipe = [(first.get(axis), sources.get(axis), self.steps[axis]) for axis in merged.moving]

        def combine(own: Starts, others: Starts) -> Starts:
            return tuple([
                (0 if mine is None else own[mine]) + (0 if theirs is None else others[theirs] * step)
                for mine, theirs, step in recipe
            ])  # fmt: skip

        return merged, combine

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: D102
        strides, offset = layout
        offset += sum(strides[axis] * start for axis, start in zip(self.moving, starts, strict=True))
        laid: list[int] = []
        for index in reversed(range(len(self.axes))):
            axis = self.axes[index]
            if self._repeats(index):
                laid.append(0)
            elif axis is None:
                laid.append(laid[-1] * self.shape[index + 1] if laid else 1)
            else:
                laid.append(strides[axis] * self.steps[axis])
        return tuple(reversed(laid)), offset


@lru_cache(maxsize=4096)
def make_window(
    in_shape: Shape, sizes: Shape, steps: Shape, axes: tuple[int | None, ...], shape: Shape
) -> Window:
    """Returns the window of these sizes; see :class:`Window`. Equal arguments give the same object."""
    return Window(in_shape, sizes, steps, axes, shape)


def is_partitioned(whole: Any) -> bool:
    """Returns whether an array is on several devices, or a traced one may be."""
    if isinstance(whole, Tracer):
        return not jax.typeof(whole).sharding.mesh.empty
    return whole.sharding.num_devices > 1


def _are_static(starts: Sequence[Any]) -> bool:
    return all(isinstance(start, int) for start in starts)


def _to_indices(starts: Sequence[Any]) -> list[Any]:
    return [jnp.asarray(start, jnp.int32) for start in starts]


def _select_into(whole: Any, part: Any, starts: Sequence[Any], steps: Shape) -> Any:
    """Writes a part at static places by selecting item by item. Every device does this locally."""
    if not part.size:
        return whole
    sharding = jax.typeof(whole).sharding
    explicit = any(kind == AxisType.Explicit for kind in sharding.mesh.axis_types)
    inside: Any = True
    pads: list[tuple[int, int, int]] = []
    for axis, (start, step) in enumerate(zip(starts, steps, strict=True)):
        end = start + (part.shape[axis] - 1) * step + 1
        pads.append((start, whole.shape[axis] - end, step - 1))
        along = lax.broadcasted_iota(
            jnp.int32, whole.shape, axis, out_sharding=sharding if explicit else None
        )
        inside &= (along >= start) & (along < end) & ((along - start) % jnp.int32(step) == 0)
    spread = lax.pad(part, jnp.zeros((), part.dtype), pads)
    if explicit:
        spread = jax.sharding.reshard(spread, sharding)
    return lax.select(inside, spread, whole)
