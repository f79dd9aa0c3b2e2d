"""Bags of embeddings: sums, means or maxima of rows of a table."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import SELECTED, NetworkRow
from oplib.builtin.shared_kernels.cpu_forms import compute_on_cpu
from oplib.builtin.shared_kernels.promotion import check_dtypes, in_single
from oplib.builtin.tables.reductions.scan import sum_in_tree
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import HALF


def _find_bags(indices: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """Returns the bag of each index, from 1 on, and the number of bags; bag 0 has what is in none."""
    count = offsets.shape[0] - include_last_offset
    starts = jnp.zeros_like(indices, dtypes.int32).at[offsets[:count]].add(1, mode="drop")
    return sum_in_tree(starts, 0), max(count, 0)


def _spread_gradient(weight: Any, indices: Any) -> Any:
    """Returns the rows; the gradient of a row is divided by the number of its look-ups."""
    rows = jnp.take(weight, indices, axis=0, mode="clip")
    times = jnp.zeros(weight.shape[0], rows.dtype).at[indices].add(1)[indices]
    constant = lax.stop_gradient(rows)
    return constant + (rows - constant) / lax.expand_dims(times, (1,))


def _largest(rows: Any, bags: Any, count: int) -> Any:
    """Returns the maxima of each bag; the gradient goes to the first of equal items."""
    items = lax.stop_gradient(rows)
    best = jax.ops.segment_max(items, bags, count)
    indices = lax.broadcasted_iota(dtypes.int32, rows.shape, 0)
    is_it = (items == jnp.take(best, bags, axis=0, mode="clip")) | jnp.isnan(items)
    first = jax.ops.segment_min(jnp.where(is_it, indices, rows.shape[0]), bags, count)
    return jnp.take_along_axis(rows, first, 0, mode="fill", fill_value=0)


def _add_rows(count: int, is_half: bool, table: Any, *others: Any) -> Any:
    """Returns the sums of the rows of each bag, times their factors unless these are None.

    Rows take longer to store than to add, so CPUs add them one by one; but a table of halves, which is added
    in single, would be converted as a whole.

    Args:
        count: the number of bags.
        is_half: the table is one of halves.
        table: the rows.
        *others: the index of each row that is added, its bag, and its factor.
    """

    def add(table: Any, indices: Any, bags: Any, factors: Any) -> Any:
        rows = jnp.take(table, indices, axis=0, mode="clip")
        rows = rows if factors is None else rows * lax.expand_dims(factors, (1,))
        return jax.ops.segment_sum(rows, bags, count)

    def add_one_by_one(table: Any, *others: Any) -> Any:
        def step(place: Any, sums: Any) -> Any:
            index, bag, factor = jax.tree.map(lambda array: array[place], others)
            row = jnp.take(table, index, axis=0, mode="clip")
            return sums.at[bag].add(row if factor is None else row * factor)

        first = add(table, *jax.tree.map(lambda array: array[:1], others))
        return lax.fori_loop(1, others[0].shape[0], step, first)

    return (add if is_half else compute_on_cpu(add, by=add_one_by_one))(table, *others)


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
    bags = jnp.where(indices == padding_idx, 0, bags)
    if not indices.size:
        return jnp.zeros((count, weight.shape[1]), weight.dtype)

    def compute(table: Any, factors: Any) -> Any:
        places = indices
        if scale_grad_by_freq:
            table, places = _spread_gradient(table, places), lax.iota(dtypes.int32, places.shape[0])
        if mode == "max":
            return _largest(jnp.take(table, places, axis=0, mode="clip"), bags, count + 1)
        total = _add_rows(count + 1, weight.dtype in HALF, table, places, bags, factors)
        if mode == "sum":
            return total
        sizes = jnp.zeros(count + 1, total.dtype).at[bags].add(1)
        return total / lax.expand_dims(jnp.maximum(sizes, 1), (1,))

    return in_single(compute)(weight, per_sample_weights)[1:]


def _check(weight: Any, indices: Any, offsets: Any, per_sample_weights: Any, *, mode: str) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ArgumentValueError("mode has to be one of sum, mean or max", "Choose one of them.")
    if (weight.ndim, indices.ndim, offsets.ndim) != (2, 1, 1):
        raise ArgumentValueError("weight has to be a matrix, input and offsets vectors", "Reshape them.")
    if {indices.dtype, offsets.dtype} - {dtypes.int32, dtypes.int64}:
        raise ArgumentError(
            "expected dtype int32 or int64 for input and offsets", "Convert them: tensor.int()."
        )
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
