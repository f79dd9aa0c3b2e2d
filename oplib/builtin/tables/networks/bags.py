"""Bags of embeddings: sums, means or maxima of rows, without storing the rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.kernels.promotion import check_dtypes, in_single
from oplib.builtin.rows.row import SELECTED, NetworkRow
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.tensor.dtypes import names as dtypes


def _find_bags(indices: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """Returns the bag of each index, and the number of bags."""
    count = offsets.shape[0] - (1 if include_last_offset else 0)
    starts = lax.convert_element_type(offsets[:count], dtypes.int32)
    positions = lax.iota(dtypes.int32, indices.shape[0])
    return jnp.searchsorted(starts, positions, side="right") - jnp.ones_like(positions), max(count, 0)


def _spread_gradient(rows: Any, indices: Any, count: int) -> Any:
    """Returns the rows unchanged; the gradient of a row is divided by the number of its look-ups."""
    times = jnp.zeros(count, rows.dtype).at[indices].add(1)[indices]
    constant = lax.stop_gradient(rows)
    return constant + (rows - constant) / lax.expand_dims(times, (1,))


def _largest(rows: Any, bags: Any, count: int) -> Any:
    """Returns the maxima of each bag; the gradient goes to the first of equal items."""
    items = lax.stop_gradient(rows)
    best = jax.ops.segment_max(items, bags, count)
    indices = lax.broadcasted_iota(dtypes.int32, rows.shape, 0)
    beyond = rows.shape[0]
    is_it = (items == jnp.take(best, bags, axis=0, mode="clip")) & lax.expand_dims(bags < count, (1,))
    first = jax.ops.segment_min(jnp.where(is_it, indices, beyond), bags, count)
    is_there = first < beyond
    largest = jnp.take_along_axis(rows, jnp.where(is_there, first, 0), 0, mode="clip")
    return jnp.where(is_there, largest, 0)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    per_sample_weights: Any = None,
    *,
    mode: str = "mean",
    include_last_offset: bool = False,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
) -> Any:
    _check(weight, indices, offsets, per_sample_weights, mode=mode)
    bags, count = _find_bags(indices, offsets, include_last_offset)
    if padding_idx >= 0:  # assigned to a bag beyond the last, which is dropped
        bags = jnp.where(indices == padding_idx, count, bags)
    if not indices.size:
        return jnp.zeros((count, weight.shape[1]), weight.dtype)

    def compute(weight: Any, *factors: Any) -> Any:
        rows = jnp.take(weight, indices, axis=0, mode="clip")
        if scale_grad_by_freq:
            rows = _spread_gradient(rows, indices, weight.shape[0])
        if mode == "max":
            return _largest(rows, bags, count)
        rows = rows * lax.expand_dims(factors[0], (1,)) if factors else rows
        total = jax.ops.segment_sum(rows, bags, count)
        if mode == "sum":
            return total
        sizes = jax.ops.segment_sum(jnp.ones(bags.shape, rows.dtype), bags, count)
        return total / lax.expand_dims(jnp.maximum(sizes, 1), (1,))

    return in_single(compute)(*([weight] if per_sample_weights is None else [weight, per_sample_weights]))


def _check(weight: Any, indices: Any, offsets: Any, per_sample_weights: Any, *, mode: str) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ArgumentValueError("mode has to be one of sum, mean or max", "Choose one of them.")
    if weight.ndim != 2 or indices.ndim != 1 or offsets.ndim != 1:
        raise ArgumentValueError("weight has to be a matrix, input and offsets vectors", "Reshape them.")
    if any(array.dtype not in (dtypes.int32, dtypes.int64) for array in (indices, offsets)):
        raise ArgumentError(
            "expected dtype int32 or int64 for input and offsets", "Convert them: tensor.int()."
        )
    if per_sample_weights is not None:
        check_dtypes(weight, per_sample_weights)


ROWS = (
    NetworkRow(
        "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights=None, *, "
        "str mode='mean', bool include_last_offset=False, int padding_idx=-1, "
        "bool scale_grad_by_freq=False) -> Tensor",
        _embedding_bag,
        "sums, means or maxima of the rows in each bag; offsets are the starts of the bags",
        derivative=SELECTED,
        dtypes="hf",
    ),
)
