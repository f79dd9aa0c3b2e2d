"""Maxima of windows at random places, a given number of them along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.promotion import check_dtypes, strong
from oplib.builtin.shared_kernels.windows import check_input_rank, check_numbers, repeat_for_axes
from oplib.errors import ArgumentError
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes


def _pool(
    rank: int, input: Any, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Any
) -> tuple[Any, Any]:
    """Returns values and positions; of equal items the first counts, and the last nan."""
    check_input_rank(rank, input)
    kernel = repeat_for_axes("kernel_size", kernel_size, rank)
    counts = repeat_for_axes("output_size", output_size, rank)
    check_numbers(kernel_size=kernel)
    check_numbers(least=0, output_size=counts)
    _check_fit(input, kernel, counts)
    _check_samples(rank, input, random_samples)
    batched = input if input.ndim == rank + 2 else lax.expand_dims(input, (0,))
    samples = lax.stop_gradient(random_samples[: batched.shape[0]])
    if samples.dtype.itemsize < 4:  # half precision does not hold all places
        samples = lax.convert_element_type(samples, dtypes.float32)
    samples = samples[..., ::-1] if rank == 2 else samples  # torch's order there is width, height
    indices = _find_indices(batched.shape[2:], kernel, counts, samples)
    items = lax.reshape(batched, (*batched.shape[:2], 1, math.prod(batched.shape[2:])))
    windows = jnp.take_along_axis(items, indices, -1, mode="promise_in_bounds")
    best = lax.expand_dims(_find_largest(lax.stop_gradient(windows)), (indices.ndim - 1,))
    shape = (*input.shape[:-rank], *counts)
    values, where = (
        lax.reshape(jnp.take_along_axis(array, best, -1, mode="promise_in_bounds"), shape)
        for array in (windows, indices)
    )
    return values, lax.convert_element_type(where, default_int_dtype())


def _check_fit(input: Any, kernel: Sequence[int], counts: Sequence[int]) -> None:
    """Raises if windows would begin at equal places; torch wants one place more in three dims."""
    rank = len(kernel)
    spare = 1 if rank == 3 else 0
    for size, length, count in zip(input.shape[-rank:], kernel, counts, strict=True):
        if count + length - 1 + spare > size:
            raise ArgumentError(
                f"the windows are too large, or too many: {count} windows of {length} need "
                f"{count + length - 1 + spare} places",
                "Ask for fewer.",
            )


def _check_samples(rank: int, input: Any, samples: Any) -> None:
    check_dtypes(input, samples)
    batch = input.shape[0] if input.ndim == rank + 2 else 1
    needed = batch, input.shape[-rank - 1], rank
    if samples.ndim != 3 or samples.shape[0] < batch or samples.shape[1:] != needed[1:]:
        raise ArgumentError(
            f"'_random_samples' must have the shape {list(needed)}: batch, channels, pooled axes",
            "Leave it out to draw it.",
        )


def _find_indices(sizes: Sequence[int], kernel: Sequence[int], counts: Sequence[int], samples: Any) -> Any:
    """Returns the flat positions of the items of each window: batch, channels, windows, items."""
    rank = len(sizes)
    positions = jnp.zeros((*samples.shape[:2], *[1] * (2 * rank)), np.int32)
    for axis in range(rank):
        starts = _find_starts(sizes[axis], kernel[axis], counts[axis], samples[..., axis])
        starts = lax.convert_element_type(starts, np.int32)
        inner = np.arange(kernel[axis], dtype=np.int32)
        both = lax.expand_dims(starts, (3,)) + inner.reshape(1, 1, 1, -1)
        others = [index for index in range(2, 2 * rank + 2) if index not in (axis + 2, axis + 2 + rank)]
        positions = positions * np.int32(sizes[axis]) + lax.expand_dims(both, others)
    return lax.reshape(positions, (*samples.shape[:2], math.prod(counts), math.prod(kernel)))


def _find_starts(size: int, length: int, count: int, draws: Any) -> Any:
    """Returns where windows begin: evenly apart, moved by a draw from 0 to 1, and the last at the end."""
    last = jnp.full((*draws.shape, min(count, 1)), size - length, draws.dtype)
    if count < 2:
        return last
    step = strong((size - length) / (count - 1), draws)
    numbers = jnp.arange(count - 1, dtype=draws.dtype).reshape(1, 1, -1)
    draws = lax.expand_dims(draws, (2,))
    return jnp.concatenate([lax.floor((numbers + draws) * step) - lax.floor(draws * step), last], -1)


def _find_largest(windows: Any) -> Any:
    """Returns the position of the first of the largest items; of the last nan if there is one."""
    axis = windows.ndim - 1
    is_nan = jnp.isnan(windows)
    last = np.int32(windows.shape[-1] - 1) - lax.argmax(jnp.flip(is_nan, -1), axis, np.int32)
    return jnp.where(jnp.any(is_nan, -1), last, lax.argmax(windows, axis, np.int32))


ROWS = tuple(
    Row(
        f"sampled_max_pool{rank}d(Tensor input, int[{rank}] kernel_size, int[{rank}] output_size, "
        "Tensor random_samples) -> (Tensor, Tensor)",
        partial(_pool, rank),
        "maximum of each window at a random place, and its position in its channel",
        source=f"torch.nn.functional.fractional_max_pool{rank}d_with_indices",
        dtypes="hf",
        is_internal=True,
        autocast="cpu float32",
    )
    for rank in (2, 3)
)
