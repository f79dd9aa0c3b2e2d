"""Pooling by norms, the inverse of max pooling, and normalisation by neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import NetworkRow, Row
from oplib.builtin.shared_kernels.promotion import in_single, is_integral, strong, to_floating
from oplib.builtin.shared_kernels.windows import repeat_for_axes
from oplib.builtin.tables.reductions.moments import compute_distances, compute_distances_by_rows, take_power
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.library import Derivative

from .pooling import avg_pool, max_pool

# By norms ---------------------------------------------------------------------------------------------------


def _lp_pool(
    rank: int,
    input: Any,
    norm_type: float,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    ceil_mode: bool = False,
) -> Any:
    array = to_floating(input)
    if math.isinf(norm_type):
        sign = strong(math.copysign(1, norm_type), array)
        return sign * max_pool(rank, sign * jnp.abs(array), kernel_size, stride, ceil_mode=ceil_mode)[0]
    count = math.prod(repeat_for_axes("kernel_size", kernel_size, rank))

    def compute(x: Any) -> Any:
        powers = lax.pow(x, strong(norm_type, x))
        means = avg_pool(rank, powers, kernel_size, stride, ceil_mode=ceil_mode)
        return take_power(means * count, 1 / norm_type)

    return in_single(compute)(array)


# Unpooling --------------------------------------------------------------------------------------------------


def _max_unpool(rank: int, input: Any, indices: Any, output_size: Sequence[int]) -> Any:
    if indices.dtype.kind not in "iu":
        raise ArgumentError("indices are integers", "Convert them.")
    if indices.shape != input.shape or input.ndim not in (rank + 1, rank + 2) or len(output_size) != rank:
        raise ArgumentError(
            f"expected {rank + 1}D or {rank + 2}D input, and indices of the same shape",
            "Give those of a pool.",
        )
    lead, count = input.shape[:-rank], math.prod(input.shape[:-rank])
    rows = (count, input.size // max(count, 1))
    flat = jnp.zeros((count, math.prod(output_size)), input.dtype)
    row = lax.broadcasted_iota(indices.dtype, rows, 0)
    positions = row, lax.reshape(indices, rows)
    return flat.at[positions].set(lax.reshape(input, rows), mode="drop").reshape(*lead, *output_size)


def _save_indices(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(inputs[1])


def _unpool_backward(rank: int, ctx: Any, g: Any) -> Any:
    """Returns the gradient; an item that several windows share gets it from each of them, as in torch."""
    (indices,) = ctx.saved_tensors
    count = max(math.prod(g.shape[:-rank]), 1)
    rows, columns = (lax.reshape(array, (count, array.size // count)) for array in (g, indices))
    items = jnp.take_along_axis(rows, columns, 1, mode="clip")
    return lax.reshape(items, indices.shape), None, None


# By channels ------------------------------------------------------------------------------------------------


def _local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    if input.ndim < 3:
        raise ArgumentValueError(
            "expected 3D or higher dimensionality input", "Give batch, channels, places."
        )
    if size < 1:
        raise ArgumentError("size must be positive", "Give at least 1.")
    if not input.size:
        return input

    def compute(x: Any) -> Any:
        rest = x.ndim - 2
        below, above = (min(reach, x.shape[1]) for reach in (size // 2, (size - 1) // 2))
        pads = [(0, 0), (below, above), *[(0, 0)] * rest]
        window, steps = (1, below + 1 + above, *(1,) * rest), (1,) * x.ndim
        total = lax.reduce_window(x * x, np.zeros((), x.dtype), lax.add, window, steps, pads)
        if is_integral(x.dtype):  # torch's mean of integers is one
            total = lax.div(total, strong(size, total)) * size
        x, total = to_floating(x), to_floating(total)
        divisor = total * (alpha / size) + k
        return x / lax.pow(divisor, strong(beta, x))

    return in_single(compute)(input)


# Distances --------------------------------------------------------------------------------------------------


def _pdist(compute: Any, input: Any, p: float = 2.0) -> Any:
    if input.ndim != 2 or p < 0:
        raise ArgumentError(
            "only supports 2D tensors, and non-negative p values", "Give one vector in each row."
        )
    places = np.ravel_multi_index(np.triu_indices(input.shape[0], 1), (input.shape[0],) * 2)
    distances = in_single(lambda x: compute(x, x, p))(input)
    picked = distances.reshape(-1).at[places.astype(np.int32)]
    return picked.get(mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True)


_FUNCTIONAL = "torch.nn.functional."


def _rows(rank: int) -> tuple[Row, ...]:
    many = f"int[{rank}]"
    return (
        NetworkRow(
            f"lp_pool{rank}d(Tensor input, float norm_type, {many} kernel_size, {many} stride=[], "
            "bool ceil_mode=False) -> Tensor",
            partial(_lp_pool, rank),
            "roots of the sums of powers of each window",
            dtypes="bihf",
            autocast="cpu float32" if rank == 3 else "",
        ),
        NetworkRow(
            f"max_unpool{rank}d(Tensor input, Tensor indices, int[] output_size) -> Tensor",
            partial(_max_unpool, rank),
            "items at their positions before max pooling, and 0 elsewhere",
            derivative=Derivative(backward=partial(_unpool_backward, rank), setup_context=_save_indices),
            dtypes="hf",
            autocast="cpu float32",
        ),
    )


ROWS = (
    *_rows(1),
    *_rows(2),
    *_rows(3),
    NetworkRow(
        "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.) -> "
        "Tensor",
        _local_response_norm,
        "self, divided by a power of the mean square of neighbouring channels",
        dtypes="ihf",
    ),
    NetworkRow(
        "pdist(Tensor input, float p=2.) -> Tensor",
        partial(_pdist, compute_distances),
        "distances between all pairs of different rows, each pair once",
        kernels=(("cpu", partial(_pdist, compute_distances_by_rows)),),
        dtypes="hf",
        autocast="cuda float32",
    ),
)
