# ruff: noqa: A002  the parameters are torch's
"""Functions that count and combine: covariances of weighted observations, combinations, runs, index pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, read_known, read_values
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedDtypeError, describe
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes.rules import INTEGRAL
from oplib.tensor.factories.from_data import tensor

from .data_dependent import check_unselected

Function = Callable[..., Any]


# Covariances ------------------------------------------------------------------------------------------------


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Estimates the covariances of variables.

    Args:
        input: ``[variables, observations]``, or the observations of one variable; not bools.
        correction: sums of products are divided by the number of observations less this.
        fweights: how often each observation counts, ints.
        aweights: how much each observation counts, floating.

    Returns:
        ``[variables, variables]``, or a number for one variable.

    Raises:
        ArgumentError: shapes or dtypes that do not fit, or weights that are known and negative, or sum to 0.
        UnsupportedDtypeError: an input of bools.

    Gradient:
        By the input and ``aweights``.

    Source:
        torch.cov

    Example:
        >>> import oplib
        >>> oplib.cov(oplib.tensor([[0.0, 2.0], [1.0, 5.0]]))
        tensor([[2., 4.],
                [4., 8.]])
    """
    given = [read_known(one) for one in (fweights, aweights) if hasattr(one, "dtype")]
    known = [one for one in given if one is not None and one.size]
    fits = all(one.dtype.kind != "c" and one.ndim < 2 and one.size == input.shape[-1] for one in known)
    if fits and any((one < 0).any() or not one.any() for one in known):
        raise ArgumentError(
            "cov: weights cannot be negative, or sum to zero, since they can't be normalized. Got "
            f"{describe(fweights)} and {describe(aweights)}. They are 0 or more, and some are more."
        )
    return ops.cov(input, fweights, aweights, correction=correction)


# Runs and combinations --------------------------------------------------------------------------------------


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Leaves one of each run of equal items, or of equal slices along a dim.

    Args:
        input: of any shape.
        return_inverse: also give for each item, or slice, in which run it is.
        return_counts: also give how long each run is.
        dim: which dim; by default items are compared, flat.

    Returns:
        The first of each run; a tuple with what else was asked for.

    Raises:
        DimensionError: there is no such dim.
        ArgumentError: slices along it have no items.
        TracingError: the values are not known yet.

    Gradient:
        None: the result does not lead back to the input.

    Source:
        torch.unique_consecutive

    Example:
        >>> import oplib
        >>> oplib.unique_consecutive(oplib.tensor([3, 3, 1, 3]), return_counts=True)
        (tensor([3, 1, 3]), tensor([2, 1, 1]))
    """
    values = read_values("unique_consecutive", input)
    axis = 0 if dim is None else find_dim("unique_consecutive", values.ndim, dim)
    if dim is not None:
        check_unselected("unique_consecutive", values, axis)
    rows = values.reshape(-1) if dim is None else values
    moved = np.moveaxis(np.atleast_1d(rows), axis, 0)
    flat = moved.reshape(moved.shape[0], math.prod(moved.shape[1:]))
    is_first = np.ones(flat.shape[0], bool)
    is_first[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = np.flatnonzero(is_first)
    results = [box_like(input, np.take(np.atleast_1d(rows), starts, axis), values.dtype)]
    if return_inverse:
        inverse = np.cumsum(is_first) - 1
        results.append(box_like(input, inverse.reshape(values.shape) if dim is None else inverse))
    if return_counts:
        results.append(box_like(input, np.diff(np.append(starts, flat.shape[0]))))
    return results[0] if len(results) == 1 else tuple(results)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Lists all choices of ``r`` items, one in each row.

    Args:
        input: a vector.
        r: how many are chosen.
        with_replacement: whether an item may be chosen again.

    Returns:
        ``[count, r]``; without items for ``r=0``.

    Raises:
        ArgumentError: no vector, or a negative number.

    Gradient:
        Each item has the sum of those of its places.

    Source:
        torch.combinations

    Example:
        >>> import oplib
        >>> oplib.combinations(oplib.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.ndim != 1 or r < 0:
        raise ArgumentError(
            f"combinations: expect a 1D vector, and a non-negative number. Got {describe(input)} and "
            f"r={r}. Flatten it."
        )
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input.shape[0]), r)) if r else [], np.int32)
    chosen = ops.index_select(input, 0, box_like(input, places.reshape(-1), np.int32))
    return ops.reshape(chosen, (places.size // r, r)) if r else chosen


# Places of triangles, and shapes ----------------------------------------------------------------------------


def _make_triangle(find: Callable[..., Any], which: str) -> Function:
    name = find.__name__

    def triangle(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
        if row < 0 or col < 0:
            raise ArgumentError(
                f"{name}: row and col must be non-negative. Got {row} and {col}. Give the sizes."
            )
        if dtype is not None and np.dtype(dtype) not in INTEGRAL:
            raise UnsupportedDtypeError(
                f"{name}: places are integers. Got dtype={dtype}. Choose an integral one."
            )
        places = np.stack(find(row, offset, col)).astype(np.int32)
        return tensor(places, dtype=default_int_dtype() if dtype is None else dtype, device=device)

    found = [places.tolist() for places in find(2)]
    triangle.__name__, triangle.__doc__ = name, _TRIANGLE.format(name=name, which=which, found=found)
    return triangle


_TRIANGLE = """Finds the places of the {which} triangle of a matrix, row by row.

    Args:
        row: how many rows it has.
        col: how many columns.
        offset: of the diagonal at which the triangle ends, which is part of it.
        dtype: integral; by default that of ints.
        device: where the result is to be.

    Returns:
        ``[2, count]``: rows, and columns.

    Raises:
        ArgumentError: a negative size.
        UnsupportedDtypeError: a dtype that is not integral.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.{name}

    Example:
        >>> import oplib
        >>> oplib.{name}(2, 2).tolist()
        {found}
    """


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Finds the shape to which shapes broadcast.

    Args:
        *shapes: sequences of sizes, or single ones.

    Returns:
        A tuple.

    Raises:
        ArgumentError: there is none.
        ArgumentValueError: a negative size.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.broadcast_shapes

    Example:
        >>> import oplib
        >>> oplib.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    given = [(one,) if isinstance(one, int) else tuple(one) for one in shapes]
    if any(size < 0 for one in given for size in one):
        raise ArgumentValueError(
            f"broadcast_shapes: a dimension has a negative length. Got {given}. Give 0 or more."
        )
    try:
        return tuple(np.broadcast_shapes(*given))
    except ValueError:
        raise ArgumentError(
            f"broadcast_shapes: the sizes must match, or be 1. Got {given}. Change one of them."
        ) from None


COMPOSED = (
    Composed(broadcast_shapes, returns="Any"),
    Composed(combinations),
    Composed(cov, is_method=True),
    Composed(_make_triangle(np.tril_indices, "lower"), makes=True),
    Composed(_make_triangle(np.triu_indices, "upper"), makes=True),
    Composed(
        unique_consecutive,
        is_method=True,
        deciding=(
            "return_inverse",
            "return_counts",
        ),
    ),
)
