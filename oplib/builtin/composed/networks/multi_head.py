"""``multi_head_attention_forward``: projections, masks, attention of each head, and the projection back."""

from __future__ import annotations

import math
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.networks.dropout import check_p
from oplib.builtin.values import make_zeros
from oplib.errors import ArgumentError
from oplib.protocols import Values
from oplib.tensor.dtypes import names as dtypes

from .attention import scaled_dot_product_attention


def _require(holds: bool, what: str, cure: str) -> None:
    if not holds:
        raise ArgumentError(what, cure)


def _check_shapes(query: Any, key: Any, value: Any, key_padding_mask: Any, *, is_separate: bool) -> None:
    rank = query.ndim
    is_fit = rank in (2, 3) and key.ndim == value.ndim == rank
    is_fit = is_fit and key.shape[:-1] == value.shape[:-1] and key.shape[1:-1] == query.shape[1:-1]
    _require(
        is_fit and (is_separate or key.shape == value.shape),
        "query, key and value must be [L, E], or [L, N, E], with one length of key and value",
        "Move the axis of the batch to the middle.",
    )
    lengths = (*query.shape[1:-1], key.shape[0])
    if key_padding_mask is not None:
        _require(
            tuple(key_padding_mask.shape) == lengths,
            f"key_padding_mask must have the shape {lengths}",
            "Give an item for each key.",
        )


def _check_heads(query: Any, width: int, heads: int) -> None:
    _require(
        query.shape[-1] == width and width % heads == 0,
        "the last size of the query must be embed_dim_to_check, and a multiple of num_heads",
        "Pass the last size of the query, and a number of heads that divides it.",
    )


def _to_float_mask(name: str, mask: Any, dtype: Any) -> Any:
    """Returns numbers to add to the scores."""
    if mask is None or mask.dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        return mask
    _require(
        mask.dtype == dtypes.bool,
        f"only bool and floating types of {name} are supported",
        "Compare it with 0.",
    )
    return ops.masked_fill(ops.zeros_like(mask, dtype=dtype), mask, -math.inf)


def _shape_mask(mask: Any, heads: int, query: Any, key: Any) -> Any:
    """Returns a mask as ``[1, L, S]`` or ``[N * heads, L, S]``."""
    lengths, count = (query.shape[0], key.shape[0]), query.shape[1] * heads
    shapes = (lengths, (count, *lengths))
    _require(
        tuple(mask.shape) in shapes,
        f"attn_mask must have one of the shapes {shapes[0]} and {shapes[1]}",
        "Give a row for each query, and an item for each key.",
    )
    return ops.unsqueeze(mask, 0) if mask.ndim == 2 else mask


def _project(inputs: Values, weights: Values | None, packed: Any, bias: Any) -> list[Any]:
    width = inputs[0].shape[-1]
    if weights is None:
        _require(
            packed is not None and tuple(packed.shape) == (3 * width, width),
            f"in_proj_weight must have the shape {(3 * width, width)}",
            "Pack the weights of query, key and value along the first dim.",
        )
        weights = tuple(ops.chunk(packed, 3, 0))
    for weight, sequence in zip(weights, inputs, strict=True):
        _require(
            weight is not None and tuple(weight.shape) == (width, sequence.shape[-1]),
            f"the weight of a projection must have the shape {(width, sequence.shape[-1])}",
            "Give q_proj_weight, k_proj_weight and v_proj_weight.",
        )
    biases = (None,) * 3 if bias is None else ops.chunk(bias, 3, 0)
    return [ops.linear(*factors) for factors in zip(inputs, weights, biases, strict=True)]


def _split_heads(projected: Any, heads: int) -> Any:
    """Turns ``[L, N, E]`` to ``[N * heads, L, E / heads]``."""
    length, batch, width = projected.shape
    return ops.transpose(ops.reshape(projected, (length, batch * heads, width // heads)), 0, 1)


def _choose_static(given: tuple[Any, Any], made: list[Any]) -> list[Any]:
    """Returns keys and values, with those that are given instead of the projected ones."""
    chosen: list[Any] = []
    for name, static, projected in zip(("static_k", "static_v"), given, made, strict=True):
        _require(
            static is None or (static.ndim == 3 and static.shape[::2] == projected.shape[::2]),
            f"{name} must have the shape {(projected.shape[0], 'S', projected.shape[2])}",
            "Give an item for each head of each example.",
        )
        chosen.append(projected if static is None else static)
    return chosen


def _attend(
    heads: list[Any], mask: Any, dropout_p: float, *, weighs: bool, is_causal: bool
) -> tuple[Any, Any]:
    """Returns the values that queries get, and their weights if these are asked for."""
    query, key, value = heads
    if not weighs:
        return scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal), None
    scores = ops.matmul(ops.mul(query, math.sqrt(1 / query.shape[-1])), ops.transpose(key, -2, -1))
    scores = scores if mask is None else ops.add(scores, mask)
    weights = ops.softmax(scores, -1)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p) if dropout_p < 1 else ops.mul(weights, 0)
    return ops.matmul(weights, value), weights


def _add_keys(parts: list[Any], extra: tuple[Any, Any], batch: int) -> list[Any]:
    """Puts one key and value for all examples behind the others."""
    is_pair = extra[0] is not None and extra[1] is not None
    _require(
        is_pair or (extra[0] is None and extra[1] is None),
        "bias_k and bias_v are given together",
        "Give both, or none.",
    )
    if not is_pair:
        return parts
    return [
        ops.cat([part, ops.repeat(row, (1, batch, 1))], 0) for part, row in zip(parts, extra, strict=True)
    ]


def _add_zeros(part: Any) -> Any:
    return ops.cat([part, make_zeros(part, (part.shape[0], 1, part.shape[2]))], 1)


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Computes multi-head attention, with its projections.

    Args:
        query: ``[L, N, E]``, or ``[L, E]`` without batch.
        key: ``[S, N, E]`` or ``[S, E]``.
        value: like the key.
        embed_dim_to_check: E.
        num_heads: the number of heads, which divides E.
        in_proj_weight: ``[3 * E, E]``, the weights for query, key and value.
        in_proj_bias: ``[3 * E]``, or None.
        bias_k: ``[1, 1, E]``, a further key, or None.
        bias_v: ``[1, 1, E]``, its value, or None.
        add_zero_attn: whether a further key and value are 0.
        out_proj_weight: ``[E, E]``.
        out_proj_bias: ``[E]``, or None.
        training: whether dropout is applied.
        key_padding_mask: ``[N, S]``, or ``[S]`` without batch: bools, True for the keys that do not take
            part, or numbers that are added to the scores.
        need_weights: whether the weights are returned. Without them long sequences need less memory.
        attn_mask: ``[L, S]`` or ``[N * num_heads, L, S]``, as ``key_padding_mask``.
        use_separate_proj_weight: whether the next three are used, not ``in_proj_weight``. Keys and values
            may then have other last sizes.
        q_proj_weight: ``[E, E]``.
        k_proj_weight: ``[E, key.shape[-1]]``.
        v_proj_weight: ``[E, value.shape[-1]]``.
        static_k: ``[N * num_heads, S, E / num_heads]``, keys to use instead of the projected ones.
        static_v: the same for values.
        average_attn_weights: whether weights are averaged over the heads.
        is_causal: a hint that ``attn_mask`` is causal; it must be given.

    Returns:
        A tuple: the result, like the query; and None or the weights, ``[N, L, S]``, or
        ``[N, num_heads, L, S]`` if they are not averaged, without N if there is no batch.

    Raises:
        ArgumentError: shapes or dtypes do not fit, or an argument that others need is None.

    Gradient:
        With respect to all floating tensors.

    Example:
        >>> import oplib.nn.functional as F
        >>> x, eye = oplib.ones(3, 1, 2), oplib.eye(2)
        >>> parts = (eye.repeat(3, 1), None, None, None, False, 0.0, eye, None)
        >>> result, weights = F.multi_head_attention_forward(x, x, x, 2, 1, *parts)
        >>> result.shape, weights.shape
        ((3, 1, 2), (1, 3, 3))
    """
    _check_shapes(query, key, value, key_padding_mask, is_separate=use_separate_proj_weight)
    _check_heads(query, embed_dim_to_check, num_heads)
    _require(
        attn_mask is not None or not is_causal,
        "is_causal needs attn_mask",
        "Pass a causal mask, or leave is_causal out.",
    )
    check_p(dropout_p)
    is_batched = query.ndim == 3
    if not is_batched:
        query, key, value = (ops.unsqueeze(sequence, 1) for sequence in (query, key, value))
    padding = _to_float_mask("key_padding_mask", key_padding_mask, query.dtype)
    is_causal = is_causal and padding is None and not need_weights
    mask = None if is_causal or attn_mask is None else _shape_mask(attn_mask, num_heads, query, key)
    mask = _to_float_mask("attn_mask", mask, query.dtype)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    length, batch, _ = query.shape
    queries, *others = _project((query, key, value), separate, in_proj_weight, in_proj_bias)
    others = _add_keys(others, (bias_k, bias_v), batch)
    heads = [_split_heads(other, num_heads) for other in (queries, *others)]
    heads[1:] = _choose_static((static_k, static_v), heads[1:])
    if add_zero_attn:
        heads[1:] = [_add_zeros(head) for head in heads[1:]]
    mask = _merge_masks(mask, padding, heads[1].shape[1], (batch, num_heads))
    four = [ops.reshape(head, (batch, num_heads, *head.shape[1:])) for head in heads]
    p = dropout_p if training else 0.0
    attended, weights = _attend(four, mask, p, weighs=need_weights, is_causal=is_causal)
    joined = ops.reshape(ops.permute(attended, (2, 0, 1, 3)), (length, batch, embed_dim_to_check))
    result = ops.linear(joined, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = ops.mean(weights, 1)
    if not is_batched:
        result = ops.squeeze(result, 1)
        weights = None if weights is None else ops.squeeze(weights, 0)
    return result, weights


def _merge_masks(mask: Any, padding: Any, count: int, sizes: tuple[int, int]) -> Any:
    """Returns the sum of the masks as ``[N or 1, heads or 1, L or 1, count]``; added keys are not masked."""
    if mask is not None:
        lead = sizes if mask.shape[0] == sizes[0] * sizes[1] else (1, 1)
        mask = ops.reshape(mask, (*lead, *mask.shape[1:]))
    if padding is not None:
        padding = ops.reshape(padding, (sizes[0], 1, 1, padding.shape[-1]))
    merged = [
        ops.pad(masked, (0, count - masked.shape[-1])) if count > masked.shape[-1] else masked
        for masked in (mask, padding)
        if masked is not None
    ]
    if len(merged) == 2:
        return ops.add(*merged)
    return merged[0] if merged else None


COMPOSED = (
    Composed(multi_head_attention_forward, in_networks=True, returns="(Tensor attn_output, Tensor? weights)"),
)
