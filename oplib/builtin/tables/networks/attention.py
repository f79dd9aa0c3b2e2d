"""Attention: values, weighted by the products of queries and keys.

Without dropout the kernel is ``jax.nn.dot_product_attention`` if its restrictions are met. On CPUs the same
formula without moving the heads is faster, because XLA makes one loop of it (docs/adr/0017).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.promotion import broadcast_to, check_dtypes, find_common_shape
from oplib.errors import ArgumentError
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import HALF
from oplib.tensor.shapes.broadcasting import broadcast_in_dim

from .dropout import broadcast_like, draw_kept, drop

NAME = "scaled_dot_product_attention"
_config: Any = jax.config  # its attributes are made at run time

# Checks of arguments ----------------------------------------------------------------------------------------


def check_operands(query: Any, key: Any, value: Any) -> None:
    """Raises if query, key and value do not fit each other.

    Raises:
        ArgumentError: their dtypes or their last two axes differ.
    """
    check_dtypes(query, key, value)
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1]:
        raise ArgumentError(
            "the last axes of query and key must have the same size, and all need two", "Reshape them."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ArgumentError("there must be one value for each key", "Reshape one of them.")


def _check_mask(query: Any, key: Any, attn_mask: Any, batch: tuple[int, ...]) -> None:
    if attn_mask.dtype not in (dtypes.bool, dtypes.float32, query.dtype):
        raise ArgumentError(
            "expected a mask of bools, or of numbers of the query's dtype or float32",
            "Compare it with something, or convert it.",
        )
    scores = (*batch, query.shape[-2], key.shape[-2])
    sizes = zip(reversed(attn_mask.shape), reversed(scores), strict=False)
    if attn_mask.ndim > len(scores) or any(have not in (1, want) for have, want in sizes):
        raise ArgumentError(
            "the mask must have a row for each query, and a column for each key", "Reshape it."
        )


def _share_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Repeats the heads of key and value, so that each head of the query has its own."""
    if min(query.ndim, key.ndim) < 3 or query.shape[-3] % key.shape[-3]:
        raise ArgumentError(
            "the number of heads in key and value must divide that of the query",
            "Choose other numbers of heads.",
        )
    times = query.shape[-3] // key.shape[-3]
    return _repeat(key, times), _repeat(value, times)


def _repeat(array: Any, times: int) -> Any:
    """Repeats each head; unlike ``jnp.repeat`` this allows arrays spread over an explicit mesh."""
    *batch, heads, length, width = array.shape
    axes = (*range(array.ndim - 2), array.ndim - 1, array.ndim)
    repeated = broadcast_in_dim(array, (*batch, heads, times, length, width), axes)
    return lax.reshape(repeated, (*batch, heads * times, length, width))


def _prepare(query: Any, key: Any, value: Any, attn_mask: Any, *, enable_gqa: bool) -> list[Any]:
    """Checks all arguments, and broadcasts batches and heads to a common shape."""
    check_operands(query, key, value)
    if enable_gqa:
        key, value = _share_heads(query, key, value)
    batch = find_common_shape(query, key, value, lead=-2)
    if attn_mask is not None:
        _check_mask(query, key, attn_mask, batch)
    return [broadcast_to(array, (*batch, *array.shape[-2:])) for array in (query, key, value)]


# The formula ------------------------------------------------------------------------------------------------


def score(query: Any, key: Any, scale: float) -> Any:
    """Returns the scaled products ``[..., L, S]`` of queries and keys, in single precision for half."""
    wide = dtypes.float32 if query.dtype in HALF else query.dtype
    products = jnp.matmul(query, key.mT, preferred_element_type=wide)
    return lax.convert_element_type(products, wide) * jnp.asarray(scale, wide)


def find_past(queries: int, keys: int) -> Any:
    """Returns ``bool[L, S]``: the keys up to each query's position, counted from the first, as in torch."""
    return jnp.tril(jnp.ones((queries, keys), bool))


def _find_seen(mask: Any) -> Any:
    return mask if mask.dtype == dtypes.bool else mask != -jnp.inf


def _weigh(query: Any, key: Any, attn_mask: Any, *, is_causal: bool, scale: float) -> Any:
    """Returns the softmax over the keys; if every key is masked, all weights are 0."""
    scores, seen = score(query, key, scale), None
    if is_causal:  # every query attends to the first key, and -inf is cheaper than a mask
        past = broadcast_like(find_past(*scores.shape[-2:]), scores)
        scores = jnp.where(past, scores, -jnp.inf)
    elif attn_mask is not None:
        mask = broadcast_like(attn_mask, scores)
        seen = _find_seen(mask)
        if mask.dtype != dtypes.bool:
            scores = scores + lax.convert_element_type(mask, scores.dtype)
    return lax.convert_element_type(jax.nn.softmax(scores, where=seen), query.dtype)


def _attend_by_formula(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    *,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Any:
    q, k, v = _prepare(query, key, value, attn_mask, enable_gqa=enable_gqa)
    return jnp.matmul(_weigh(q, k, attn_mask, is_causal=is_causal, scale=scale), v)


def _attend_with_dropout(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    *,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
    generator: Any,
) -> Any:
    q, k, v = _prepare(query, key, value, attn_mask, enable_gqa=enable_gqa)
    weights = _weigh(q, k, attn_mask, is_causal=is_causal, scale=scale)
    p = lax.convert_element_type(dropout_p, jnp.float32)
    return jnp.matmul(drop(weights, draw_kept(weights.shape, p, generator), p), v)


# By jax.nn --------------------------------------------------------------------------------------------------


def _attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    *,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Any:
    if not _fits_jax(query, key, value):
        how: dict[str, Any] = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        return _attend_by_formula(query, key, value, attn_mask, **how)
    operands = _prepare(query, key, value, attn_mask, enable_gqa=enable_gqa)
    if attn_mask is not None:
        operands.append(attn_mask)
    filled = [lax.expand_dims(array, range(4 - array.ndim)) for array in operands]
    result = _attend_in_batch(*filled, is_causal=is_causal, scale=scale)
    return lax.squeeze(result, range(4 - operands[0].ndim))


def _fits_jax(query: Any, key: Any, value: Any) -> bool:
    """Tells whether JAX's function gives the same: f32 or f64, rank 4, and values as wide as keys."""
    if query.dtype == dtypes.float64 or value.shape[-1:] != key.shape[-1:] or 0 in key.shape:
        return False
    if max(query.ndim, key.ndim, value.ndim) > 4:
        return False
    return query.dtype not in HALF or _config.jax_numpy_dtype_promotion != "strict"


def _attend_in_batch(
    query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool, scale: float
) -> Any:
    """Attends to ``[B, H, L, E]`` by ``jax.nn``, which needs positions before heads and no mask of -inf."""
    seen = bias = None
    if attn_mask is not None:
        seen = _find_seen(attn_mask)
        if attn_mask.dtype != dtypes.bool:
            bias = lax.convert_element_type(attn_mask, jnp.float32)
            bias = jnp.where(seen, bias, jnp.zeros_like(bias))
    q, k, v = (jnp.swapaxes(array, 1, 2) for array in (query, key, value))
    result = jax.nn.dot_product_attention(q, k, v, bias, seen, is_causal=is_causal, scale=scale)
    result = jnp.swapaxes(result, 1, 2)
    if seen is None:
        return result
    sees_any = broadcast_like(jnp.any(seen, axis=-1, keepdims=True), result)
    return jnp.where(sees_any, result, jnp.zeros_like(result))  # JAX would return the mean of the values


_SOURCE = f"torch.nn.functional.{NAME}"
ROWS = (
    Row(
        "sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, *, bool is_causal, float "
        "scale, bool enable_gqa) -> Tensor",
        _attend,
        "values, weighted by the softmax of scaled products of queries and keys",
        kernels=(("cpu", _attend_by_formula),),
        source=_SOURCE,
        dtypes="hf",
        is_internal=True,
        autocast="low",
    ),
    Row(
        "sdpa_dropout(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., *, "
        "bool is_causal, float scale, bool enable_gqa, Generator? generator=None) -> Tensor",
        _attend_with_dropout,
        "as sdpa, with random weights replaced by 0",
        operand=("dropout_p",),
        source=_SOURCE,
        dtypes="hf",
        is_internal=True,
    ),
)
