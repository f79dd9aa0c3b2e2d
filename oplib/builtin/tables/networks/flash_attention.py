"""Attention without a mask, whose saved values grow linearly with the length.

The op returns the result and, for each row, the logarithm of the sum of exponentials. The backward recomputes
the weights from the logarithm (Dao et al., "FlashAttention", 2022). The backward is an op too, so both have a
Pallas kernel for accelerators, which never stores the scores. On other platforms both are JAX code. Second
and forward derivatives use the JAX code on every platform.

The queries ``[..., G, L, E]`` have one axis more than the keys: G of them share each head of keys. So a
sharding rule can declare that batches and heads may be partitioned, and no head is repeated.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.kernels.promotion import strong
from oplib.builtin.rows.row import Row
from oplib.library import Derivative
from oplib.library.objects.namespace import ops
from oplib.tensor.dtypes import names as dtypes

from .attention import NAME, check_operands, find_past, score
from .dropout import broadcast_like

SQUARE = 2**18  # from this number of scores per head on, not storing them pays


def pays(query: Any, key: Any, value: Any, *, enable_gqa: bool) -> bool:
    """Tells whether this op is faster: the attention is long enough, and all arguments have one batch."""
    if min(query.ndim, key.ndim, value.ndim) < 2 or 0 in (*query.shape, *key.shape, *value.shape):
        return False
    lengths = query.shape[-2], key.shape[-2]
    if not all(isinstance(length, int) for length in lengths) or lengths[0] * lengths[1] < SQUARE:
        return False  # the length of a symbol is not known
    if key.shape[:-2] != value.shape[:-2]:
        return False
    if not enable_gqa:
        return query.shape[:-2] == key.shape[:-2]
    return query.shape[:-3] == key.shape[:-3] and not query.shape[-3] % key.shape[-3]


# The formulas -----------------------------------------------------------------------------------------------


def _flatten(array: Any, key: Any) -> Any:
    """Joins the rows of a head of keys, ``[..., G*L, ...]``, so that a product is one matrix product."""
    width = array.shape[key.ndim :]
    return lax.reshape(
        array, (*key.shape[:-2], array.shape[key.ndim - 2] * array.shape[key.ndim - 1], *width)
    )


def _score(query: Any, key: Any, is_causal: bool, scale: float) -> Any:
    """Returns the scores ``[..., G*L, S]``; -inf for masked keys."""
    scores = score(_flatten(query, key), key, scale)
    if not is_causal:
        return scores
    past = jnp.tile(find_past(query.shape[-2], key.shape[-2]), (query.shape[-3], 1))
    return jnp.where(broadcast_like(past, scores), scores, strong(-jnp.inf, scores))


def _attend(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    check_operands(query, key, value)
    scores = _score(query, key, is_causal, scale)
    weights = lax.convert_element_type(jax.nn.softmax(scores), value.dtype)
    result, total = jnp.matmul(weights, value), jax.nn.logsumexp(scores, axis=-1)
    return lax.reshape(result, (*query.shape[:-1], value.shape[-1])), lax.reshape(total, query.shape[:-1])


def _differentiate(
    query: Any, key: Any, value: Any, total: Any, delta: Any, grad: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """``delta``: per row, the product of result and gradient, minus the gradient of ``total``."""
    q, g, *columns = (_flatten(array, key) for array in (query, grad, total, delta))
    total, delta = (lax.expand_dims(column, (column.ndim,)) for column in columns)
    weights = lax.exp(_score(query, key, is_causal, scale) - total)
    wide = weights.dtype
    slopes = jnp.matmul(g, jnp.swapaxes(value, -1, -2), preferred_element_type=wide)
    slopes = weights * (lax.convert_element_type(slopes, wide) - delta)
    slopes = lax.convert_element_type(slopes * jnp.asarray(scale, wide), query.dtype)
    weights = lax.convert_element_type(weights, value.dtype)
    of_key, of_value = (jnp.matmul(jnp.swapaxes(x, -1, -2), y) for x, y in ((slopes, q), (weights, g)))
    return lax.reshape(jnp.matmul(slopes, key), query.shape), of_key, of_value


# The kernels of accelerators --------------------------------------------------------------------------------


def _attend_on(
    platform: str, query: Any, key: Any, value: Any, is_causal: bool, scale: float
) -> tuple[Any, Any]:
    if not _fits(query, key, value):
        return _attend(query, key, value, is_causal, scale)
    kernels = _find_kernels()
    return kernels.attend(kernels.PLATFORMS[platform], query, key, value, is_causal=is_causal, scale=scale)


def _differentiate_on(platform: str, *operands: Any) -> Any:
    *arrays, is_causal, scale = operands
    if not _fits(*arrays[:3]):
        return _differentiate(*operands)
    kernels = _find_kernels()
    return kernels.differentiate(kernels.PLATFORMS[platform], arrays, is_causal=is_causal, scale=scale)


def _fits(query: Any, key: Any, value: Any) -> bool:
    """Tells whether the kernels support these operands, which are neither doubles nor empty."""
    return query.dtype != dtypes.float64 and 0 not in (*query.shape, *key.shape, *value.shape)


def _find_kernels() -> Any:
    """Imports the kernels, because importing Pallas takes longer than oplib, and few traces need them."""
    return importlib.import_module("oplib.builtin.kernels.flash_kernels")


# Derivatives ------------------------------------------------------------------------------------------------


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Any, grad_total: Any) -> tuple[Any, ...]:
    *operands, result, total = ctx.saved_tensors
    if grad is None:
        grad = jnp.zeros_like(result)
    slopes, result = (lax.convert_element_type(array, total.dtype) for array in (grad, result))
    delta = jnp.sum(slopes * result, axis=-1)
    if grad_total is not None:
        delta = delta - grad_total
    backward = ops.oplib.flash_attention_backward.default
    return (*backward(*operands, total, delta, grad, *ctx.options), None, None)


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(*inputs[:6])
    ctx.options = inputs[6:]


def _backward_again(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    _, pull = jax.vjp(lambda *arrays: _differentiate(*arrays, *ctx.options), *ctx.saved_tensors)
    return (*pull(grads), None, None)


def _push_through(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the forward derivative of a formula, by JAX; its last two arguments are no tensors."""

    def push(primals: Any, tangents: Any) -> Any:
        *arrays, is_causal, scale = primals
        pushed = list(tangents[: len(arrays)])
        return jax.jvp(lambda *values: formula(*values, is_causal, scale), arrays, pushed)

    return push


_SOURCE = f"torch.nn.functional.{NAME}"
_OPTIONS = "bool is_causal, float scale"
ROWS = (
    Row(
        f"flash_attention(Tensor query, Tensor key, Tensor value, {_OPTIONS}) -> (Tensor, Tensor)",
        _attend,
        "attention without a mask, and the logarithms of the sums of exponentials",
        derivative=Derivative(backward=_backward, setup_context=_save),
        kernels=(("tpu", partial(_attend_on, "tpu")), ("gpu", partial(_attend_on, "gpu"))),
        jvp=_push_through(_attend),
        sharding="... g l e, ... s e, ... s v -> ... g l v, ... g l need_replication={l, v}",
        source=_SOURCE,
        dtypes="hf",
        is_internal=True,
        autocast="low",
    ),
    Row(
        "flash_attention_backward(Tensor query, Tensor key, Tensor value, Tensor total, Tensor delta, "
        f"Tensor grad, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
        _differentiate,
        "gradients of query, key and value of flash_attention",
        derivative=Derivative(backward=_backward_again, setup_context=_save_inputs),
        kernels=(("tpu", partial(_differentiate_on, "tpu")), ("gpu", partial(_differentiate_on, "gpu"))),
        jvp=_push_through(_differentiate),
        # the gradient of a key is a sum over the queries that share it
        sharding="... g l e, ... s e, ... s v, ... g l, ... g l, ... g l v -> ... g l e, ... s e, ... s v "
        "need_replication={g, l, e, s, v}",
        source=_SOURCE,
        dtypes="hf",
        is_internal=True,
    ),
)
