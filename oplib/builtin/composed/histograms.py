# ruff: noqa: A002  the parameters are torch's
"""Histograms of points of several dimensions."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, describe

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
            f"histogramdd: input tensor should have at least 2 dimensions. Got {describe(input)}. Add an "
            "axis for the numbers of a point."
        )
    count = input.shape[-1]
    given = [bins] * count if isinstance(bins, int) else list(bins)
    ends = None if range is None else list(range)
    if len(given) != count or (ends is not None and len(ends) != 2 * count):
        raise ArgumentError(
            "histogramdd: the size of bins must be equal to the innermost dimension of the input, and a "
            f"range has two ends for each. Got {len(given)} bins and range={ends} for {describe(input)}. "
            "Give one number of bins, and a start and an end, for each item of a point."
        )
    edges = [_find_edges(input, axis, one, ends) for axis, one in enumerate(given)]
    return Histogram(ops.histogram_grid(input, edges, weight, density=density), tuple(edges))


def _find_edges(points: Any, axis: int, bins: Any, ends: list[float] | None) -> Any:
    """Returns the edges along an axis, computed as for ``histogram`` where their number is given."""
    if not isinstance(bins, int):
        return bins
    own = None if ends is None else ends[2 * axis : 2 * axis + 2]
    return ops.histogram(ops.detach(ops.select(points, -1, axis)), bins, range=own)[1]


COMPOSED = (Composed(histogramdd, returns="(Tensor hist, Tensor[] bin_edges)"),)
