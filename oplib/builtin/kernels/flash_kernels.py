"""Attention whose memory grows linearly with the length: Pallas kernels for accelerators.

The scores are computed block by block and never stored. The forward keeps the result and the logarithm of the
sum of exponentials of each row. The backward recomputes the weights from this logarithm (Dao et al.,
"FlashAttention", 2022, and "FlashAttention-2", 2023). There are three sweeps: of queries over keys for the
result, of queries over keys for the gradient of the queries, and of keys over queries for the gradients of
keys and values.

The tests lower the kernels for TPUs and for CUDA, and check their numbers in Pallas's interpreter. The
kernels have not run on an accelerator, so the block sizes are common values that were not measured.

This module is imported when an attention is traced, because importing Pallas takes longer than oplib.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .flash_sweeps import ZERO, Operands, Sweep, sweep_in_loop, sweep_on_grid

LOWEST = -1e30  # replaces -inf, because -inf - -inf is nan
Run = Callable[..., list[Any]]


@dataclass(frozen=True)
class Blocks:
    """The partition of an attention into blocks.

    Attributes:
        queries: the number of queries in a block.
        keys: the number of keys in a block, each with its value.
        length: the number of keys without those that fill the last block.
        is_causal: whether a query attends only to the keys up to its own position.
        scale: the factor of the products.
    """

    queries: int
    keys: int
    length: int
    is_causal: bool
    scale: float

    def find_keys(self, block: Any, count: int) -> tuple[Any, Any]:
        """Returns the first and last block of ``count`` blocks of keys that a block of queries attends to."""
        if not self.is_causal:
            return ZERO, np.int32(count)
        past = (block + 1) * self.queries + (self.keys - 1)
        return ZERO, jnp.minimum(lax.div(past, np.int32(self.keys)), count)

    def find_queries(self, block: Any, count: int) -> tuple[Any, Any]:
        """Returns the first and last block of ``count`` blocks of queries that attend to a block of keys."""
        first = lax.div(block * self.keys, np.int32(self.queries)) if self.is_causal else ZERO
        return first, np.int32(count)


# The computation for one pair of blocks ---------------------------------------------------------------------


def _dot(x: Any, y: Any, *, over: tuple[int, int]) -> Any:
    """Returns a product of two blocks over one axis of each, summed in single precision."""
    return lax.dot_general(x, y, (((over[0],), (over[1],)), ((), ())), preferred_element_type=jnp.float32)


def _score(blocks: Blocks, query: Any, key: Any, row: Any, column: Any) -> Any:
    """Returns the scores ``f32[queries, keys]`` of one pair of blocks; masked scores are ``LOWEST``."""
    scores = _dot(query, key, over=(1, 1)) * blocks.scale
    columns = column * blocks.keys + lax.broadcasted_iota(jnp.int32, scores.shape, 1)
    counts = columns < blocks.length
    if blocks.is_causal:
        counts &= columns <= row * blocks.queries + lax.broadcasted_iota(jnp.int32, scores.shape, 0)
    return jnp.where(counts, scores, LOWEST)


def make_forward(blocks: Blocks, widths: tuple[int, int]) -> Sweep:
    """Makes the sweep of queries over keys for the result and the logarithm of the sum of exponentials."""

    def step(held: Any, swept: Any, carry: Any, row: Any, column: Any) -> tuple[Any, ...]:
        (query,), (key, value), (top, total, result) = held, swept, carry
        scores = _score(blocks, query, key, row, column)
        new = jnp.maximum(top, jnp.max(scores, axis=1, keepdims=True))
        weights, kept = jnp.exp(scores - new), jnp.exp(top - new)
        total = total * kept + jnp.sum(weights, axis=1, keepdims=True)
        result = result * kept + _dot(weights.astype(value.dtype), value, over=(1, 0))
        return new, total, result

    def finish(carry: Any) -> tuple[Any, ...]:
        top, total, result = carry
        return result / total, top + jnp.log(total)

    rows = blocks.queries
    starts = (((rows, 1), LOWEST), ((rows, 1), 0.0), ((rows, widths[1]), 0.0))
    return Sweep(step, finish, starts, blocks.find_keys)


def make_query_backward(blocks: Blocks, widths: tuple[int, int]) -> Sweep:
    """Makes the sweep of queries over keys for the gradient of the queries."""

    def step(held: Any, swept: Any, carry: Any, row: Any, column: Any) -> tuple[Any, ...]:
        (query, grad, total, delta), (key, value) = held, swept
        weights = jnp.exp(_score(blocks, query, key, row, column) - total)
        slopes = weights * (_dot(grad, value, over=(1, 1)) - delta) * blocks.scale
        return (carry[0] + _dot(slopes.astype(key.dtype), key, over=(1, 0)),)

    return Sweep(step, _same, (((blocks.queries, widths[0]), 0.0),), blocks.find_keys)


def make_key_backward(blocks: Blocks, widths: tuple[int, int]) -> Sweep:
    """Makes the sweep of keys over queries for the gradients of keys and values."""

    def step(held: Any, swept: Any, carry: Any, column: Any, row: Any) -> tuple[Any, ...]:
        (key, value), (query, grad, total, delta) = held, swept
        weights = jnp.exp(_score(blocks, query, key, row, column) - total)
        slopes = weights * (_dot(grad, value, over=(1, 1)) - delta) * blocks.scale
        grad_key, grad_value = carry
        grad_value += _dot(weights.astype(grad.dtype), grad, over=(0, 0))
        return grad_key + _dot(slopes.astype(query.dtype), query, over=(0, 0)), grad_value

    starts = tuple(((blocks.keys, width), 0.0) for width in widths)
    return Sweep(step, _same, starts, blocks.find_queries)


def _same(carry: Any) -> Any:
    return carry


# Whole arrays -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Platform:
    """The execution of sweeps on a platform.

    Attributes:
        run: runs a sweep.
        block: the maximal number of positions in a block.
        find_width: returns the padded width for a width.
    """

    run: Run
    block: int
    find_width: Callable[[int], int]


def attend(platform: Platform, query: Any, key: Any, value: Any, *, is_causal: bool, scale: float) -> Any:
    """Returns the result of attention, and the logarithms ``f32[..., L]`` of the sums of exponentials.

    Args:
        platform: the execution of sweeps.
        query: ``[..., H, L, E]``, of a floating dtype that all operands share.
        key: ``[..., K, S, E]``, where K divides H; each key head serves H / K query heads.
        value: ``[..., K, S, V]``.
        is_causal: whether a query attends only to the keys up to its own position.
        scale: the factor of the products.
    """
    blocks, (q, k, v) = _cut(platform, query, key, value, is_causal=is_causal, scale=scale)
    results = ((v.shape[2], query.dtype), (1, jnp.float32))
    operands = Operands.of((q,), (k, v), (blocks.queries, blocks.keys), results)
    sweep = make_forward(blocks, (q.shape[2], v.shape[2]))
    result, total = platform.run(sweep, operands)
    length, width = query.shape[-2], value.shape[-1]
    shape = query.shape[:-1]
    return (
        lax.reshape(result[:, :length, :width], (*shape, width)),
        lax.reshape(total[:, :length, 0], shape),
    )


def differentiate(
    platform: Platform, operands: tuple[Any, ...], *, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """Returns the gradients of query, key and value.

    Args:
        platform: the execution of sweeps.
        operands: query, key and value; the logarithms ``f32[..., L]`` of the forward; for each row the
            product of the result and its gradient, minus the gradient of the logarithm; the gradient of the
            result.
        is_causal: as in the forward.
        scale: as in the forward.
    """
    query, key, value, total, delta, grad = operands
    blocks, (q, k, v) = _cut(platform, query, key, value, is_causal=is_causal, scale=scale)
    rows = [
        _fill(lax.reshape(array, (q.shape[0], query.shape[-2], 1)), q.shape[1], 1) for array in (total, delta)
    ]
    g = _fill(lax.reshape(grad, (q.shape[0], *grad.shape[-2:])), q.shape[1], v.shape[2])
    widths = (q.shape[2], v.shape[2])
    sizes = (blocks.queries, blocks.keys)
    of_query = Operands.of((q, g, *rows), (k, v), sizes, ((widths[0], query.dtype),))
    of_keys = Operands.of(
        (k, v), (q, g, *rows), (sizes[1], sizes[0]), [(width, jnp.float32) for width in widths]
    )
    (grad_query,) = platform.run(make_query_backward(blocks, widths), of_query)
    grads = platform.run(make_key_backward(blocks, widths), of_keys)
    return _take(grad_query, query), _take(grads[0], key), _take(grads[1], value)


def _cut(
    platform: Platform, query: Any, key: Any, value: Any, *, is_causal: bool, scale: float
) -> tuple[Blocks, list[Any]]:
    """Returns arrays ``[heads, positions, width]`` that are padded to whole blocks and a supported width."""
    rows, columns = [
        min(platform.block, pl.next_power_of_2(max(array.shape[-2], 16))) for array in (query, key)
    ]
    filled: list[Any] = []
    for operand, size in ((query, rows), (key, columns), (value, columns)):
        flat = lax.reshape(
            operand, (operand.size // (operand.shape[-2] * operand.shape[-1]), *operand.shape[-2:])
        )
        filled.append(
            _fill(flat, pl.cdiv(operand.shape[-2], size) * size, platform.find_width(operand.shape[-1]))
        )
    return Blocks(rows, columns, key.shape[-2], is_causal, scale), filled


def _fill(array: Any, length: int, width: int) -> Any:
    """Appends zeros to the positions and the width of an array."""
    return jnp.pad(array, ((0, 0), (0, length - array.shape[1]), (0, width - array.shape[2])))


def _take(grad: Any, like: Any) -> Any:
    """Removes the padding of a gradient, and sums over the heads that share a head of ``like``."""
    length, width = like.shape[-2:]
    heads = like.size // (length * width)
    shared = lax.reshape(grad[:, :length, :width], (heads, grad.shape[0] // heads, length, width))
    return lax.reshape(lax.convert_element_type(jnp.sum(shared, axis=1), like.dtype), like.shape)


def _find_lanes(width: int) -> int:
    return pl.cdiv(width, 128) * 128


def _find_power(width: int) -> int:
    return max(pl.next_power_of_2(width), 16)


PLATFORMS = {
    "tpu": Platform(sweep_on_grid, 128, _find_lanes),
    "gpu": Platform(
        partial(sweep_in_loop, params=triton.CompilerParams(num_warps=4, num_stages=2)), 64, _find_power
    ),
}


def interpret(platform: Platform) -> Platform:
    """Returns the platform with Pallas's interpreter, which runs on any machine."""
    return Platform(partial(platform.run, interpret=True), platform.block, platform.find_width)
