"""``scaled_dot_product_attention``, which selects its op by mask, dropout and length."""

from __future__ import annotations

import math
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.networks.attention import check_operands
from oplib.builtin.tables.networks.dropout import check_p
from oplib.builtin.tables.networks.flash_attention import pays
from oplib.errors import ArgumentError
from oplib.protocols import Values
from oplib.tensor import Generator


def _attend_long(operands: Values, is_causal: bool, scale: float) -> Any:
    """Computes attention without storing the scores; the op has an axis for queries that share a key head."""
    query, key, value = operands
    check_operands(query, key, value)
    *heads, length, width = query.shape
    shared = math.prod(heads) // math.prod(key.shape[:-2])
    grouped = ops.reshape(query, (*key.shape[:-2], shared, length, width))
    result, _ = ops.flash_attention(grouped, key, value, is_causal, scale)
    return ops.reshape(result, (*heads, length, value.shape[-1]))


def _choose_scale(query: Any, scale: float | None) -> float:
    """Returns the scale; for empty vectors any number is valid."""
    if scale is not None:
        return scale
    return 1 / math.sqrt(query.shape[-1]) if query.ndim and query.shape[-1] else 1.0


def _refuse_two_masks(attn_mask: Any, is_causal: bool) -> None:
    if is_causal and attn_mask is not None:
        raise ArgumentError("explicit attn_mask should not be set when is_causal=True", "Pass only one.")


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Generator | None = None,
) -> Any:
    """Weights values by the softmax of the scaled products of queries and keys.

    The result is ``softmax(query @ key.mT * scale + attn_mask) @ value``; for half precision the softmax is
    in float32. A query whose keys are all masked gets zeros. From 2**18 scores per head on, without mask and
    dropout, the memory for the backward grows linearly with the length, and accelerators never store the
    scores.

    Args:
        query: ``[..., H, L, E]``, of float16, bfloat16, float32 or float64.
        key: ``[..., H, S, E]``, of the same dtype.
        value: ``[..., H, S, V]``, of the same dtype.
        attn_mask: a tensor that broadcasts to ``[..., H, L, S]``: bools, True for the keys that take part; or
            numbers of the query's dtype or float32, which are added to the scores.
        dropout_p: the probability that a weight becomes 0; the others are scaled by ``1 / (1 - dropout_p)``.
        is_causal: whether a query attends only to keys up to its own position, both counted from the first.
        scale: the factor of the products; by default ``1 / sqrt(E)``.
        enable_gqa: whether key and value have fewer heads, ``H / n``, each of which serves n heads of the
            query.
        generator: the source of random numbers for dropout; by default the global Generator.

    Returns:
        ``[..., H, L, V]``, of the query's dtype. The axes before H are broadcast.

    Raises:
        ArgumentError: dtypes or shapes do not fit, or both a mask and ``is_causal`` are given.
        ArgumentTypeError: ``dropout_p`` is no number.
        ArgumentValueError: ``dropout_p`` is not between 0 and 1.

    Gradient:
        With respect to query, key, value and a mask of numbers, of any order, and in forward mode. Long
        sequences have a formula that recomputes the weights; the others have JAX's own derivative.

    Source:
        torch.nn.functional.scaled_dot_product_attention; jax.nn.dot_product_attention computes it on
        accelerators. Dao et al., "FlashAttention", 2022, for long sequences.

    Example:
        >>> import oplib.nn.functional as F
        >>> places = oplib.arange(3.0).reshape(1, 3, 1)
        >>> F.scaled_dot_product_attention(oplib.zeros(1, 3, 2), oplib.zeros(1, 3, 2), places, is_causal=True)
        tensor([[[0.0000],
                 [0.5000],
                 [1.0000]]])
    """
    _refuse_two_masks(attn_mask, is_causal)
    check_p(dropout_p)
    factor = _choose_scale(query, scale)
    if attn_mask is None and not dropout_p and pays(query, key, value, enable_gqa=enable_gqa):
        return _attend_long((query, key, value), is_causal, factor)
    options = {"is_causal": is_causal, "scale": factor, "enable_gqa": enable_gqa}
    if 0 < dropout_p < 1:
        return ops.sdpa_dropout(query, key, value, attn_mask, dropout_p, **options, generator=generator)
    return ops.sdpa(query, key, value * 0 if dropout_p else value, attn_mask, **options)


COMPOSED = (Composed(scaled_dot_product_attention, in_networks=True),)
