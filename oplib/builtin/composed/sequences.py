"""Functions along sequences: slopes, counts, membership."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, read_values
from oplib.errors import ArgumentError
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

_FEW_PAIRS = 4096
"""So many pairs are compared; for more the given items are sorted."""

# Membership -------------------------------------------------------------------------------------------------


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:  # noqa: ARG001  torch's signature
    """Tests which items are among given items.

    Args:
        elements: a tensor of any shape, or a number.
        test_elements: the given items: a tensor of any shape, or a number if ``elements`` is a tensor.
        assume_unique: accepted for parity; it has no effect.
        invert: whether to test for absence instead.

    Returns:
        Bools, of the shape of ``elements``.

    Gradient:
        None: the result is bools.

    Example:
        >>> oplib.isin(oplib.tensor([1, 2, 3]), oplib.tensor([3, 1]))
        tensor([ True, False,  True])
    """
    if isinstance(test_elements, (int, float)):
        is_in = ops.eq(elements, test_elements)
    elif isinstance(elements, (int, float)):
        is_in = ops.any(ops.eq(test_elements, elements))
    elif math.prod((*elements.shape, *test_elements.shape)) <= _FEW_PAIRS or not all(
        array.dtype.kind in "iuf" for array in (elements, test_elements)
    ):
        column, row = ops.reshape(elements, (*elements.shape, 1)), ops.reshape(test_elements, (-1,))
        is_in = ops.any(ops.eq(column, row), -1)
    else:
        ordered = ops.sort(ops.reshape(test_elements, (-1,)))[0]
        places = ops.clamp_max(ops.searchsorted(ordered, elements), ordered.shape[0] - 1)
        is_in = ops.eq(ordered[places], elements)
    return ops.logical_not(is_in) if invert else is_in


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Counts the occurrences of each number from 0 on, or sums their weights.

    Args:
        input: a vector of ints, 0 or more.
        weights: the weight of each item, in the shape of the input; by default 1.
        minlength: the minimal number of counts.

    Returns:
        A vector of counts, or of sums. Sums have the dtype of the weights if it is complex or a float of at
        least 32 bits, otherwise the widest floating dtype.

    Raises:
        ArgumentError: the input is no vector of such ints, the weights have another shape, or ``minlength``
            is negative.
        TracingError: its values are traced, so the size of the result is unknown.

    Gradient:
        With respect to the weights: the gradient at the number of each item.

    Example:
        >>> oplib.bincount(oplib.tensor([2, 0, 2]))
        tensor([1, 0, 2])
    """
    if input.ndim != 1 or np.dtype(input.dtype).kind not in "iu" or minlength < 0:
        raise ArgumentError(
            "only supports 1-d non-negative integral inputs, and minlength >= 0", "Flatten or convert it."
        )
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise ArgumentError("weights should have the same length as the input", "Pass one for each item.")
    values = read_values("bincount", input)
    if values.size and values.min() < 0:
        raise ArgumentError(f"only supports non-negative inputs, but got {values.min()}", "Shift them.")
    count = max(int(values.max()) + 1 if values.size else 0, minlength)
    if weights is None:
        return box_like(input, np.bincount(values, minlength=minlength))
    items = _widen(weights)
    return ops.scatter_add(box_like(items, np.zeros(count), items.dtype), 0, input, items)


def _widen(weights: Any) -> Any:
    dtype = np.dtype(weights.dtype)
    if dtype.kind == "c" or dtype in (dtypes.float32, dtypes.float64):
        return weights
    return ops._to_copy(weights, dtypes.float64 if default_int_dtype() == dtypes.int64 else dtypes.float32)


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
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [find_dim(input.ndim, number) for number in dims]
    if len(set(axes)) < len(axes) or edge_order not in (1, 2):
        raise ArgumentError("each dim is named once, and edge_order is 1 or 2", "Name different dims.")
    if any(input.shape[axis] <= edge_order for axis in axes):
        raise ArgumentError("expected each dimension size to be at least edge_order+1", "Give more samples.")
    spaces = _read_spacing(spacing, axes, input)
    return tuple(ops.slopes(input, space, axis, edge_order) for axis, space in zip(axes, spaces, strict=True))


def _read_spacing(spacing: Any, axes: Sequence[int], input: Any) -> list[Any]:
    """Returns the distance, or the positions, along each dim."""
    if not isinstance(spacing, (list, tuple)):
        return [1 if spacing is None else spacing] * len(axes)
    sizes = [getattr(space, "shape", None) for space in spacing]
    fits = [size in (None, (), (input.shape[axis],)) for size, axis in zip(sizes, axes, strict=False)]
    if len(spacing) != len(axes) or not all(fits):
        raise ArgumentError(
            "expected spacing to be one number, or a number or vector for each dim", "Give positions."
        )
    return list(spacing)


COMPOSED = (
    Composed(bincount, is_method=True),
    Composed(isin),
    Composed(gradient, returns="Tensor[]"),
)
