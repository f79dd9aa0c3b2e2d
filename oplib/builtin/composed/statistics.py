"""Functions that count and combine: covariances, histograms, combinations, runs, index pairs."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, read_known, read_values
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedDtypeError, describe
from oplib.tensor import default_int_dtype
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.dtypes.rules import INTEGRAL
from oplib.tensor.factories.from_data import tensor

from .data_dependent import find_selected, pack_unique

# Covariances ------------------------------------------------------------------------------------------------


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Estimates the covariances of variables.

    Args:
        input: ``[variables, observations]``, or the observations of one variable; no bools.

    Returns:
        ``[variables, variables]``, or a number for one variable.

    Raises:
        ArgumentError: the shapes or dtypes do not fit, or known weights are negative or sum to 0.
        UnsupportedDtypeError: the input has bools.

    Gradient:
        With respect to the input and ``aweights``.

    Example:
        >>> oplib.cov(oplib.tensor([[0.0, 2.0], [1.0, 5.0]]))
        tensor([[2., 4.],
                [4., 8.]])
    """
    weightings = [read_known(weights) for weights in (fweights, aweights) if hasattr(weights, "dtype")]
    known = [weights for weights in weightings if weights is not None and weights.size]
    fits = all(
        weights.dtype.kind != "c" and weights.ndim < 2 and weights.size == input.shape[-1]
        for weights in known
    )
    if fits and any((weights < 0).any() or not weights.any() for weights in known):
        raise ArgumentError(
            "weights cannot be negative, or sum to zero, since they can't be normalized",
            "Give weights >= 0, some positive.",
        )
    return ops.cov(input, fweights, aweights, correction=correction)


# Runs and combinations --------------------------------------------------------------------------------------


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Keeps one item of each run of equal items, or of equal slices along a dim.

    Args:
        input: a tensor of any shape.
        return_inverse: whether to return the run of each item or slice.
        return_counts: whether to return the length of each run.
        dim: the dim of the slices; by default the items of the flat tensor are compared.

    Returns:
        The first item or slice of each run; a tuple if inverse or counts are requested.

    Raises:
        ArgumentError: the slices along it have no items.
        TracingError: the values are traced.

    Gradient:
        None: the result has no history.

    Example:
        >>> oplib.unique_consecutive(oplib.tensor([3, 3, 1, 3]), return_counts=True)
        (tensor([3, 1, 3]), tensor([2, 1, 1]))
    """
    values = read_values("unique_consecutive", input)
    axis, rows = (0, values.reshape(-1)) if dim is None else (find_selected(values, dim), values)
    moved = np.moveaxis(rows, axis, 0)
    is_first = np.ones(moved.shape[0], bool)
    is_first[1:] = (moved[1:] != moved[:-1]).any(tuple(range(1, moved.ndim)))
    starts = np.flatnonzero(is_first)
    inverse = (
        (np.cumsum(is_first) - 1).reshape(values.shape if dim is None else -1) if return_inverse else None
    )
    counts = np.diff(np.append(starts, moved.shape[0])) if return_counts else None
    found = np.take(rows, starts, axis)
    return pack_unique(input, found, inverse, counts)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Returns all choices of ``r`` items, one per row.

    Args:
        input: a vector.
        r: the number of chosen items.
        with_replacement: whether an item may be chosen again.

    Returns:
        ``[count, r]``; empty for ``r=0``.

    Raises:
        ArgumentError: the input is no vector, or the number is negative.

    Gradient:
        Each item gets the sum of the gradients at its positions.

    Example:
        >>> oplib.combinations(oplib.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.ndim != 1 or r < 0:
        raise ArgumentError("expect a 1D vector, and a non-negative number", "Flatten it.")
    indices = _choose(input.shape[0], r, with_replacement=with_replacement)
    chosen = ops.index_select(input, 0, box_like(input, indices.reshape(-1), np.int32))
    return ops.reshape(chosen, (indices.size // r, r)) if r else chosen


def _choose(count: int, r: int, *, with_replacement: bool) -> Any:
    """Returns the indices of each choice in a row, in order; each round adds an index to all choices."""
    chosen = np.zeros((1 if r else 0, 0), np.int32)
    least = np.zeros(len(chosen), np.int32)
    for _ in range(r if with_replacement or r <= count else 0):
        repeats = np.maximum(count - least, 0)
        last = _list_ranges(least, repeats)
        chosen = np.column_stack([np.repeat(chosen, repeats, 0), last])
        least = last + (not with_replacement)
    return chosen if chosen.shape[1] == r else np.zeros((0, r), np.int32)


def _list_ranges(starts: Any, lengths: Any) -> Any:
    """Returns the integers of several ranges, one range after another."""
    before = np.cumsum(lengths, dtype=np.int32) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum(), dtype=np.int32)


# Indices of triangles, and shapes ---------------------------------------------------------------------------


def _make_triangle(name: str, which: str, find: Function) -> Function:
    def triangle(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        if row < 0 or col < 0:
            raise ArgumentError("row and col must be non-negative", "Give the sizes.")
        if dtype is not None and np.dtype(dtype) not in INTEGRAL:
            raise UnsupportedDtypeError("indices are integers", "Choose an integral one.")
        require_memory(name, (row, col), np.dtype(bool))
        indices = list_triangle(row, col, offset)
        return tensor(indices, dtype=default_int_dtype() if dtype is None else dtype, device=device)

    def list_triangle(row: int, col: int, offset: int) -> Any:
        rows = np.arange(row, dtype=np.int32)
        starts, lengths = find(np.clip(np.arange(row) + offset, -1, col).astype(np.int32), col)
        return np.stack([np.repeat(rows, lengths), _list_ranges(starts, lengths)])

    shown = list_triangle(2, 2, 0).tolist()
    triangle.__name__, triangle.__doc__ = name, _TRIANGLE.format(name=name, which=which, found=shown)
    return triangle


def _find_lower(diagonal: Any, col: int) -> Any:
    """Returns the first column and the number of columns of each row, from its column of the diagonal."""
    return 0 * diagonal, np.minimum(diagonal + 1, col)


def _find_upper(diagonal: Any, col: int) -> Any:
    starts = np.maximum(diagonal, 0)
    return starts, col - starts


_TRIANGLE = """Returns the indices of the {which} triangle of a matrix, row by row.

    Args:
        row: the number of rows.
        col: the number of columns.
        offset: the number of the diagonal that bounds the triangle, which includes it.
        dtype: an integral dtype; by default that of ints.
        device: the device of the result.

    Returns:
        ``[2, count]``: rows and columns.

    Raises:
        ArgumentError: a size is negative.
        UnsupportedDtypeError: the dtype is not integral.

    Gradient:
        None: no argument is differentiable.

    Example:
        >>> oplib.{name}(2, 2).tolist()
        {found}
    """


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Computes the shape to which shapes broadcast.

    Args:
        *shapes: sequences of sizes, or single sizes.

    Returns:
        A tuple.

    Raises:
        ArgumentError: the shapes do not broadcast.
        ArgumentValueError: a size is negative.

    Gradient:
        None: no argument is differentiable.

    Example:
        >>> oplib.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    listed = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(size < 0 for shape in listed for size in shape):
        raise ArgumentValueError(
            f"broadcast_shapes: a dimension has a negative length. Got {describe(listed)}. Give 0 or more."
        )
    try:
        return tuple(np.broadcast_shapes(*listed))
    except ValueError:
        raise ArgumentError(
            f"broadcast_shapes: the sizes must match, or be 1. Got {describe(listed)}. Change one of them."
        ) from None


Histogram = namedtuple("Histogram", ("hist", "bin_edges"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]  a type of fields would say no more


def histogramdd(
    input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> Any:
    """Counts points in the cells of a grid.

    Args:
        input: ``[..., N]``, points of N numbers, float32 or float64.
        bins: the number of intervals along all axes; one number for each axis; or a vector of edges for each
            axis, of the dtype of the input.
        range: the ends of the grid along each axis, 2 * N numbers, for numbers of intervals. By default
            those of the points.
        weight: ``[...]``, what each point counts, of the dtype of the input; by default 1.

    Returns:
        A named tuple: the counts, with N dimensions, and a tuple of the edges along each axis. A point on an
        edge, except the last, belongs to the cell above.

    Raises:
        ArgumentError: shapes or dtypes do not fit, a number of intervals is below 1, or an end is below its
            start.

    Gradient:
        None: counts are piecewise constant in the points.

    Example:
        >>> points = oplib.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
        >>> oplib.histogramdd(points, 2).hist
        tensor([[0., 1.],
                [1., 1.]])
    """
    if input.ndim < 2:
        raise ArgumentError(
            "input tensor should have at least 2 dimensions", "Add an axis for the numbers of a point."
        )
    count = input.shape[-1]
    listed_bins = [bins] * count if isinstance(bins, int) else list(bins)
    ends = None if range is None else list(range)
    if len(listed_bins) != count or (ends is not None and len(ends) != 2 * count):
        raise ArgumentError(
            "the size of bins must be equal to the innermost dimension of the input, and a range has two "
            "ends for each",
            "Give one number of bins, and a start and an end, for each item of a point.",
        )
    edges = [_find_edges(input, axis, axis_bins, ends) for axis, axis_bins in enumerate(listed_bins)]
    return Histogram(ops.histogram_grid(input, edges, weight, density=density), tuple(edges))


def _find_edges(points: Any, axis: int, bins: Any, ends: list[float] | None) -> Any:
    """Returns the edges along an axis, computed as for ``histogram`` where their number is given."""
    if not isinstance(bins, int):
        return bins
    own = None if ends is None else ends[2 * axis : 2 * axis + 2]
    return ops.histogram(ops.detach(ops.select(points, -1, axis)), bins, range=own)[1]


COMPOSED = (
    Composed(broadcast_shapes, returns="Any"),
    Composed(combinations),
    Composed(cov, is_method=True),
    Composed(_make_triangle("tril_indices", "lower", _find_lower), makes=True),
    Composed(_make_triangle("triu_indices", "upper", _find_upper), makes=True),
    Composed(unique_consecutive, is_method=True, deciding=("return_inverse", "return_counts")),
    Composed(histogramdd, returns="(Tensor hist, Tensor[] bin_edges)"),
)
