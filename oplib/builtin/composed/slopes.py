# ruff: noqa: A002  the parameters are torch's
"""The slopes of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, describe


def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """Estimates the slopes of a sampled function along dims, by central differences inside.

    Args:
        input: the samples, real or complex, with ``edge_order + 1`` at least along each dim.
        spacing: the distance of samples, by default 1: a number; or a number, or a vector of positions, for
            each dim.
        dim: one dim or several; by default all.
        edge_order: 1 or 2, the order of the difference at both ends.

    Returns:
        A tuple with a tensor like the input for each dim.

    Raises:
        ArgumentError: there are too few samples, the spacing does not fit the dims, or the order is another.

    Gradient:
        The gradient of the differences, also by the positions.

    Example:
        >>> oplib.gradient(oplib.tensor([1.0, 2.0, 4.0, 8.0]))
        (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    given = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [find_dim("gradient", input.ndim, one) for one in given]
    if len(set(axes)) < len(axes) or edge_order not in (1, 2):
        raise ArgumentError(
            f"gradient: each dim is named once, and edge_order is 1 or 2. Got dim={dim} and "
            f"edge_order={edge_order}. Name different dims."
        )
    if any(input.shape[axis] <= edge_order for axis in axes):
        raise ArgumentError(
            f"gradient: expected each dimension size to be at least edge_order+1. Got {describe(input)} and "
            f"edge_order={edge_order}. Give more samples."
        )
    spaces = _read_spacing(spacing, axes, input)
    return tuple(_differentiate(input, axis, one, edge_order) for axis, one in zip(axes, spaces, strict=True))


def _read_spacing(spacing: Any, axes: Sequence[int], input: Any) -> list[Any]:
    """Returns the distance, or the positions, along each dim."""
    if not isinstance(spacing, (list, tuple)):
        return [1 if spacing is None else spacing] * len(axes)
    sizes = [getattr(one, "shape", None) for one in spacing]
    fits = [size in (None, (), (input.shape[axis],)) for size, axis in zip(sizes, axes, strict=False)]
    if len(spacing) != len(axes) or not all(fits):
        raise ArgumentError(
            f"gradient: expected spacing to be one number, or a number or vector for each dim. Got "
            f"{len(spacing)} of them for {describe(input)} along {list(axes)}. Give positions."
        )
    return list(spacing)


def _differentiate(input: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    count = input.shape[axis]

    def take(start: int, length: int) -> Any:
        return ops.narrow(input, axis, start, length)

    is_even = not getattr(spacing, "ndim", 0)
    if is_even:
        steps = [spacing] * 2
        inner = ops.div(ops.sub(take(2, count - 2), take(0, count - 2)), spacing * 2)
    else:
        shape = tuple(-1 if index == axis else 1 for index in range(input.ndim))
        gaps = ops.reshape(
            ops.sub(ops.narrow(spacing, 0, 1, count - 1), ops.narrow(spacing, 0, 0, count - 1)), shape
        )
        steps = [ops.narrow(gaps, axis, index, 1) for index in range(count - 1)]
        before, after = ops.narrow(gaps, axis, 0, count - 2), ops.narrow(gaps, axis, 1, count - 2)
        inner = (
            ops.mul(take(0, count - 2), -after / (before * (before + after)))
            + ops.mul(take(1, count - 2), (after - before) / (before * after))
            + ops.mul(take(2, count - 2), before / (after * (before + after)))
        )
    first = _find_edge([take(index, 1) for index in range(edge_order + 1)], steps[:2])
    last = _find_edge(
        [take(count - 1 - index, 1) for index in range(edge_order + 1)], [-one for one in steps[::-1][:2]]
    )
    return ops.cat([first, inner, last], axis)


def _find_edge(samples: Sequence[Any], steps: Sequence[Any]) -> Any:
    """Returns the slope at the first of two or three samples."""
    if len(samples) == 2:
        return ops.div(ops.sub(samples[1], samples[0]), steps[0])
    one, two = steps
    factors = -(2 * one + two) / (one * (one + two)), (one + two) / (one * two), -one / (two * (one + two))
    return sum(
        (ops.mul(sample, factor) for sample, factor in zip(samples[1:], factors[1:], strict=True)),
        ops.mul(samples[0], factors[0]),
    )


COMPOSED = (Composed(gradient, returns="Tensor[]"),)
