"""Attention: values weighed by how queries and keys agree."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.errors import ArgumentError, describe
from oplib.tensor import dtypes
from oplib.tensor.dtype_rules import FLOATING

from ._dropout import draw_kept, drop
from ._normalisation import _softmax
from ._products import check_dtypes
from ._promotion import find_shape, strong
from ._table import Row


def _weigh(query: Any, key: Any, attn_mask: Any, is_causal: bool, scale: float) -> Any:
    """The softmax over the keys, in single precision for half; where no key takes part all weights are 0."""
    wide = dtypes.float32 if query.dtype in (dtypes.float16, dtypes.bfloat16) else query.dtype
    scores = jnp.matmul(query, jnp.swapaxes(key, -1, -2), preferred_element_type=wide)
    scores = lax.convert_element_type(scores, wide) * jnp.asarray(scale, wide)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool)) if is_causal else attn_mask
    if mask is None:
        return lax.convert_element_type(_softmax(scores, scores.ndim - 1), query.dtype)
    mask = jnp.broadcast_to(mask, scores.shape)
    if mask.dtype != dtypes.bool:
        return lax.convert_element_type(
            _softmax(scores + lax.convert_element_type(mask, wide), scores.ndim - 1), query.dtype
        )
    lowest = strong(-jnp.inf, scores)
    is_none = ~jnp.any(mask, axis=-1, keepdims=True)
    masked = jnp.where(mask | is_none, scores, lowest)
    weights = jnp.where(is_none, strong(0, scores), _softmax(masked, masked.ndim - 1))
    return lax.convert_element_type(weights, query.dtype)


def _check_mask(query: Any, key: Any, attn_mask: Any) -> None:
    if attn_mask is None:
        return
    if attn_mask.dtype != dtypes.bool and attn_mask.dtype not in FLOATING:
        raise ArgumentError(
            "scaled_dot_product_attention: expected a mask of bools, or of numbers of the query's dtype. Got "
            f"{describe(attn_mask)} for {describe(query)}. Compare it with something."
        )
    scores = (query.shape[-2], key.shape[-2])
    if any(
        have not in (1, want)
        for have, want in zip(attn_mask.shape[-2:], scores[-attn_mask.ndim :], strict=True)
    ):
        raise ArgumentError(
            "scaled_dot_product_attention: the mask must have a row for each query, and a column for each "
            f"key. Got {describe(attn_mask)} for {describe(query)} and {describe(key)}. Reshape it."
        )


def _check(query: Any, key: Any, value: Any, attn_mask: Any = None) -> None:
    check_dtypes("scaled_dot_product_attention", query, key, value)
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1]:
        raise ArgumentError(
            "scaled_dot_product_attention: the last axes of query and key must have the same size, and all "
            f"need two. Got {describe(query)}, {describe(key)} and {describe(value)}. Reshape them."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ArgumentError(
            "scaled_dot_product_attention: there must be one value for each key. Got "
            f"{describe(key)} and {describe(value)}. Reshape one of them."
        )
    _check_mask(query, key, attn_mask)


def _share_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Repeats the heads of key and value until each of the query has its own."""
    if min(query.ndim, key.ndim) < 3 or query.shape[-3] % key.shape[-3]:
        raise ArgumentError(
            "scaled_dot_product_attention: the number of heads in key and value must divide that of the "
            f"query. Got {describe(query)}, {describe(key)} and {describe(value)}. Choose other numbers of "
            "heads."
        )
    times = query.shape[-3] // key.shape[-3]
    return jnp.repeat(key, times, axis=-3), jnp.repeat(value, times, axis=-3)


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
    _check(query, key, value, attn_mask)
    if enable_gqa:
        key, value = _share_heads(query, key, value)
    find_shape("scaled_dot_product_attention", query, key, value, lead=-2)
    return jnp.matmul(_weigh(query, key, attn_mask, is_causal, scale), value)


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
    _check(query, key, value, attn_mask)
    if enable_gqa:
        key, value = _share_heads(query, key, value)
    weights = _weigh(query, key, attn_mask, is_causal, scale)
    p = lax.convert_element_type(dropout_p, jnp.float32)
    return jnp.matmul(drop(weights, draw_kept(weights.shape, p, generator), p), value)


_SOURCE = "torch.nn.functional.scaled_dot_product_attention"
ROWS = (
    Row(
        "sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, *, bool is_causal, float "
        "scale, bool enable_gqa) -> Tensor",
        _attend,
        "values weighed by the softmax of scaled products of queries and keys",
        source=_SOURCE,
        dtypes="hf",
    ),
    Row(
        "sdpa_dropout(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., *, "
        "bool is_causal, float scale, bool enable_gqa, Generator? generator=None) -> Tensor",
        _attend_with_dropout,
        "the same, after some of the weights have been replaced by 0",
        operand=("dropout_p",),
        source=_SOURCE,
        dtypes="hf",
    ),
)
