# ruff: noqa: A002  the parameters are torch's
"""Pooling by norms, and the inverse of max pooling, as in ``torch.nn.functional``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_known
from oplib.errors import ArgumentError, ArgumentValueError, describe

Function = Callable[..., Any]


def _make_lp_pool(rank: int) -> Function:
    name = f"lp_pool{rank}d"

    def lp_pool(
        input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Any:
        """Computes the roots of the sums of powers of each window.

        Args:
            input: ``[N, C, ...]`` or ``[C, ...]``.
            norm_type: the power; inf for the largest absolute value.
            kernel_size: the size of a window.
            stride: the step between windows; by default ``kernel_size``.
            ceil_mode: whether the last window may extend beyond the input.

        Returns:
            One number per window.

        Raises:
            ArgumentError: the input has another number of dimensions, or there is no window.

        Gradient:
            With respect to the input; 0 for a window of zeros.

        Example:
            >>> oplib.nn.functional.lp_pool1d(oplib.tensor([[[3.0, 4.0]]]), 2, 2)
            tensor([[[5.]]])
        """
        op = getattr(ops, name)
        return op(input, float(norm_type), kernel_size, () if stride is None else stride, ceil_mode)

    lp_pool.__name__ = name
    return lp_pool


def _make_max_unpool(rank: int) -> Function:
    name = f"max_unpool{rank}d"

    def max_unpool(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        """Writes items at their positions before max pooling, and 0 elsewhere.

        Args:
            input: ``[N, C, ...]`` or ``[C, ...]``.
            indices: the positions of the items in their channel.
            kernel_size: the size of the windows of the pooling, like the next two arguments.
            stride: the step between windows; by default ``kernel_size``.
            padding: the number of positions added on both sides.
            output_size: the size before pooling; by default the smallest possible size.

        Returns:
            A tensor of the size before pooling.

        Raises:
            ArgumentValueError: no pooling produces the input from that size.
            ArgumentError: the shapes do not fit, or an index is out of range.

        Gradient:
            Each item gets the gradient at its position.

        Example:
            >>> oplib.nn.functional.max_unpool1d(oplib.tensor([[[5.0]]]), oplib.tensor([[[1]]]), 2)
            tensor([[[0., 5.]]])
        """
        kernel, pad = (_spread(one, rank) for one in (kernel_size, padding))
        step = kernel if stride is None else _spread(stride, rank)
        sizes = [
            (have - 1) * one + size - 2 * less
            for have, one, size, less in zip(input.shape[-rank:], step, kernel, pad, strict=True)
        ]
        if output_size is not None:
            sizes = _read_sizes(name, list(output_size), sizes, step)
        _check_unpooled(name, indices, sizes)
        return getattr(ops, name)(input, indices, sizes)

    max_unpool.__name__ = name
    return max_unpool


def _check_unpooled(name: str, indices: Any, sizes: Sequence[int]) -> None:
    values, count = read_known(indices), math.prod(sizes)
    if values is not None and values.size and not 0 <= values.min() <= values.max() < count:
        raise ArgumentError(
            f"{name}: found an invalid max index; an index is out of bounds. Got {describe(indices)} up to "
            f"{values.max()} for sizes {list(sizes)}. Give output_size: the size before pooling."
        )


def _spread(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _read_sizes(name: str, given: list[int], least: Sequence[int], step: Sequence[int]) -> list[int]:
    rank = len(least)
    wanted = given[2:] if len(given) == rank + 2 else given
    if len(wanted) != rank or any(
        abs(one - size) >= move for one, size, move in zip(wanted, least, step, strict=True)
    ):
        raise ArgumentValueError(
            f"{name}: invalid output_size {given}: each size must be nearer than a stride to "
            f"{list(least)}. Got strides {list(step)}. Give the size of what was pooled."
        )
    return wanted


COMPOSED = (
    *(Composed(_make_lp_pool(rank), in_networks=True) for rank in (1, 2, 3)),
    *(Composed(_make_max_unpool(rank), in_networks=True) for rank in (1, 2, 3)),
)
