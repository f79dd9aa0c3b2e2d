"""The checks of an index of gather, scatter and similar ops, and the items that it selects."""

from __future__ import annotations

from typing import Any

from jax import lax

from oplib.errors import ArgumentError, DimensionError, describe
from oplib.tensor.dtypes import names as dtypes


def check_index(op: str, index: Any) -> None:
    """Checks that an index contains integers.

    Raises:
        ArgumentError: it does not.
    """
    if index.dtype not in (dtypes.int32, dtypes.int64):
        raise ArgumentError(
            f"{op}: expected dtype int32 or int64 for index. Got {describe(index)}. Convert it: tensor.int()."
        )


def check_vector(op: str, index: Any) -> None:
    """Checks that an index contains integers and has at most one dim.

    Raises:
        ArgumentError: it does not contain integers.
        DimensionError: it has more dims.
    """
    check_index(op, index)
    if index.ndim > 1:
        raise DimensionError(f"{op}: index is supposed to be a vector. Got {describe(index)}. Flatten it.")


def check_fit(op: str, self: Any, index: Any, axis: int) -> None:
    """Checks that an index contains integers and is no larger than the tensor, except along one dim.

    Raises:
        ArgumentError: it is larger, has another number of dims, or does not contain integers.
    """
    if not index.size:  # torch looks at shape and dtype of places only where there are some
        return
    check_index(op, index)
    sizes = zip(index.shape, self.shape, strict=False)
    if max(index.ndim, 1) != max(self.ndim, 1) or any(
        mine > other for dim, (mine, other) in enumerate(sizes) if dim != axis
    ):
        raise ArgumentError(
            f"{op}: index must have the same number of dimensions as input, and be no larger except in dim "
            f"{axis}. Got {describe(index)} for {describe(self)}. Reshape it."
        )


def list_indices(index: Any, axis: int) -> tuple[Any, ...]:
    """Returns the index of an array that selects ``[..., index[...], ...]`` along an axis."""
    return tuple(
        index if dim == axis else lax.broadcasted_iota(index.dtype, index.shape, dim)
        for dim in range(index.ndim)
    )
