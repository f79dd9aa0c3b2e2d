"""The windows of pooling and unfolding: their positions, their number, and their items."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.errors import ArgumentError
from oplib.library.batching_and_sharding.varying import match_varying


def repeat_for_axes(name: str, value: Sequence[int], rank: int) -> tuple[int, ...]:
    """Returns one number per axis; a single number counts for all axes.

    Raises:
        ArgumentError: there is neither one number nor one per axis.
    """
    numbers = tuple(value)
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank:
        raise ArgumentError(f"expected one number or {rank} for '{name}'", "Give as many.")
    return numbers


def check_numbers(*, least: int = 1, **named: Sequence[int]) -> None:
    """Raises if a number, such as a stride, is too small.

    Raises:
        ArgumentError: a number is below ``least``.
    """
    for name, numbers in named.items():
        if any(number < least for number in numbers):
            kind = "greater than zero" if least else "non-negative"
            raise ArgumentError(f"'{name}' must be {kind}", f"Give {least} or more for each axis.")


def check_input_rank(rank: int, array: Any, *, has_channels: bool = True) -> None:
    """Raises if an input lacks an axis of batch, channels and positions, or one except the batch is empty.

    Raises:
        ArgumentError: the input has another number of axes, or an empty axis.
    """
    if array.ndim not in (rank + 1, rank + 2):
        raise ArgumentError(
            f"expected {rank + 1}D or {rank + 2}D input: batch, channels, places", "Reshape it."
        )
    needed = array.shape[-rank - 1 if has_channels else -rank :]
    if 0 in needed:
        raise ArgumentError(
            "expected a tensor with optional 0 dim batch size, and other axes with items",
            "Do not call the op on empty tensors.",
        )


class Windows:
    """The positions of the windows of a pooling along each axis.

    Args:
        op: the op's name, for errors.
        sizes: the sizes of the pooled axes.
        kernel: the sizes of a window.
        stride: the steps from one window to the next; empty for the sizes of the window.
        padding: the number of positions added on both sides.
        dilation: the steps from one position of a window to the next.
        ceil_mode: whether the last window may extend beyond the input.
        limits_padding: whether the padding is limited to half a window.

    Attributes:
        counts: the number of windows along each axis.
        ends: the number of positions added at the end of each axis.

    Raises:
        ArgumentError: a number is too small, the padding too large, or there are no windows.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
        limits_padding: bool = True,
    ) -> None:
        rank = len(sizes)
        self.kernel = repeat_for_axes("kernel_size", kernel, rank)
        self.stride = repeat_for_axes("stride", stride, rank) if len(stride) else self.kernel
        self.padding = repeat_for_axes("padding", padding, rank)
        self.dilation = repeat_for_axes("dilation", dilation, rank)
        check_numbers(kernel_size=self.kernel, stride=self.stride, dilation=self.dilation)
        check_numbers(least=0, padding=self.padding)
        if limits_padding and any(
            pad > size // 2 for size, pad in zip(self.kernel, self.padding, strict=True)
        ):
            raise ArgumentError("pad should be at most half of effective kernel size", "Pad less.")
        self.counts = [self._count(axis, size, ceil_mode) for axis, size in enumerate(sizes)]
        if min(self.counts) < 1:
            raise ArgumentError(
                "there is no window in the padded input; the output size is too small",
                "Make the kernel smaller, or pad.",
            )
        self.ends = [self._end(axis, size, ceil_mode) for axis, size in enumerate(sizes)]

    def _reach(self, axis: int) -> int:
        """Returns the number of positions that a window spans."""
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def _count(self, axis: int, size: int, ceil_mode: bool) -> int:
        pad, step = self.padding[axis], self.stride[axis]
        length = size + 2 * pad - self._reach(axis)
        count = (-(-length // step) if ceil_mode else length // step) + 1
        is_beyond = ceil_mode and (count - 1) * step >= size + pad  # it would begin in the padding
        return count - 1 if is_beyond else count

    def _end(self, axis: int, size: int, ceil_mode: bool) -> int:
        """Returns the number of positions to add at the end, so that the last window is complete."""
        pad = self.padding[axis]
        last = (self.counts[axis] - 1) * self.stride[axis] + self._reach(axis)
        return max(last - size - pad, 0) if ceil_mode else pad

    def sum(self, array: Any) -> Any:
        """Sums the items of each window; positions beyond the edge count as 0."""
        lead = array.ndim - len(self.kernel)
        ones = (1,) * lead
        pads = [(0, 0)] * lead + list(zip(self.padding, self.ends, strict=True))
        nothing = np.zeros((), array.dtype)  # a concrete 0, by which JAX recognizes a sum
        window, steps = (*ones, *self.kernel), (*ones, *self.stride)
        return lax.reduce_window(array, nothing, lax.add, window, steps, pads)

    def gather(self, array: Any, fill: Any) -> Any:
        """Returns all items of each window, along a new first axis."""
        lead = array.ndim - len(self.kernel)
        pads = [(0, 0, 0)] * lead + [(a, b, 0) for a, b in zip(self.padding, self.ends, strict=True)]
        padded = lax.pad(array, fill, pads)
        return jnp.stack([self._shift(padded, offset, lead) for offset in self._offsets()])

    def scatter(self, items: Any, like: Any) -> Any:
        """Sums items of windows at their positions: the transpose of :meth:`gather`, shaped as ``like``."""
        image, items = match_varying([jnp.zeros(like, items.dtype), items])
        gather = functools.partial(self.gather, fill=np.zeros((), items.dtype))
        return jax.linear_transpose(gather, image)(items)[0]

    def _offsets(self) -> Any:
        return itertools.product(*map(range, self.kernel))

    def _shift(self, padded: Any, offset: Sequence[int], lead: int) -> Any:
        starts = [index * hole for index, hole in zip(offset, self.dilation, strict=True)]
        reaches = [self._reach(axis) - 1 for axis in range(len(self.kernel))]
        sizes = padded.shape[lead:]
        stops = [start + size - reach for start, size, reach in zip(starts, sizes, reaches, strict=True)]
        return lax.slice(
            padded, (*(0,) * lead, *starts), (*padded.shape[:lead], *stops), (*(1,) * lead, *self.stride)
        )
