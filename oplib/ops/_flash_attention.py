# ruff: noqa: PLR0917  the arguments are the op's
"""Attention without a mask, which keeps for its backward what grows with the length and not with its square.

Beside the result the op gives, for each row, the logarithm of the sum of exponentials: from it the backward
computes the weights anew (Dao et al., "FlashAttention", 2022). The backward is an op too, so that both have a
Pallas kernel for accelerators; these never store the scores. Elsewhere, and where these kernels do not fit or
do not pay, both are lines of JAX, which second and forward derivatives go through on every platform.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.library import Derivative
from oplib.library.objects.namespace import ops
from oplib.tensor import dtypes

from ._attention import _check, _share_heads
from ._promotion import find_shape, strong
from ._table import Row

SQUARE = 2**18  # scores of a head from which on not to store them is worth a kernel of its own
_HALF = (dtypes.float16, dtypes.bfloat16)

# The formulas -----------------------------------------------------------------------------------------------


def _spread(operands: tuple[Any, ...], enable_gqa: bool) -> tuple[Any, ...]:
    """Repeats and broadcasts heads and batches, so that all three have the same."""
    query, key, value = operands
    if enable_gqa:
        key, value = _share_heads(query, key, value)
    batch = find_shape("scaled_dot_product_attention", query, key, value, lead=-2)
    return tuple(jnp.broadcast_to(one, batch + one.shape[-2:]) for one in (query, key, value))


def _score(query: Any, key: Any, is_causal: bool, scale: float) -> Any:
    """The scores, in single precision for half; -inf where a query does not see a key."""
    wide = dtypes.float32 if query.dtype in _HALF else query.dtype
    scores = jnp.matmul(query, jnp.swapaxes(key, -1, -2), preferred_element_type=wide)
    scores = lax.convert_element_type(scores, wide) * jnp.asarray(scale, wide)
    if not is_causal:
        return scores
    return jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, strong(-jnp.inf, scores))


def _attend(
    query: Any, key: Any, value: Any, is_causal: bool, scale: float, enable_gqa: bool
) -> tuple[Any, Any]:
    _check(query, key, value)
    q, k, v = _spread((query, key, value), enable_gqa)
    scores = _score(q, k, is_causal, scale)
    if not k.shape[-2]:  # nothing is seen: the sum of no values, as of no exponentials
        return jnp.matmul(lax.convert_element_type(scores, v.dtype), v), jnp.full_like(
            scores, -jnp.inf, shape=scores.shape[:-1]
        )
    top = lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    weights = lax.exp(scores - top)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    result = jnp.matmul(lax.convert_element_type(weights / total, v.dtype), v)
    return result, lax.squeeze(top + lax.log(total), (scores.ndim - 1,))


def _differentiate(
    query: Any,
    key: Any,
    value: Any,
    total: Any,
    delta: Any,
    grad: Any,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> tuple[Any, Any, Any]:
    """``delta``: of each row, the product of result and gradient, less the gradient of ``total``."""
    (q, k, v), pull = jax.vjp(lambda *three: _spread(three, enable_gqa), query, key, value)
    weights = lax.exp(_score(q, k, is_causal, scale) - lax.expand_dims(total, (total.ndim,)))
    wide = weights.dtype
    slopes = jnp.matmul(grad, jnp.swapaxes(v, -1, -2), preferred_element_type=wide)
    slopes = weights * (lax.convert_element_type(slopes, wide) - lax.expand_dims(delta, (delta.ndim,)))
    slopes = lax.convert_element_type(slopes * jnp.asarray(scale, wide), q.dtype)
    weights = lax.convert_element_type(weights, v.dtype)
    of_key, of_value = (jnp.matmul(jnp.swapaxes(x, -1, -2), y) for x, y in ((slopes, q), (weights, grad)))
    return pull((jnp.matmul(slopes, k), of_key, of_value))


# The kernels of accelerators --------------------------------------------------------------------------------


def pays(query: Any, key: Any, value: Any, enable_gqa: bool) -> bool:
    """Whether operands suit the kernels of accelerators: long enough, of one batch, no double."""
    if min(query.ndim, key.ndim) < 2:
        return False  # it is refused elsewhere
    if query.shape[-2] * key.shape[-2] < SQUARE or query.dtype not in (*_HALF, dtypes.float32):
        return False
    if 0 in (*query.shape, *value.shape) or key.shape[:-2] != value.shape[:-2]:
        return False
    if not enable_gqa:
        return query.shape[:-2] == key.shape[:-2]
    return query.shape[:-3] == key.shape[:-3] and not query.shape[-3] % key.shape[-3]


def _attend_on(platform: str) -> Callable[..., Any]:
    def attend(
        query: Any, key: Any, value: Any, is_causal: bool, scale: float, enable_gqa: bool
    ) -> tuple[Any, Any]:
        if not pays(query, key, value, enable_gqa):
            return _attend(query, key, value, is_causal, scale, enable_gqa)
        kernels = _find_kernels()
        return kernels.attend(
            kernels.PLATFORMS[platform], query, key, value, is_causal=is_causal, scale=scale
        )

    return attend


def _differentiate_on(platform: str) -> Callable[..., Any]:
    def differentiate(*operands: Any) -> Any:
        *arrays, is_causal, scale, enable_gqa = operands
        if not pays(arrays[0], arrays[1], arrays[2], enable_gqa):
            return _differentiate(*operands)
        kernels = _find_kernels()
        return kernels.differentiate(kernels.PLATFORMS[platform], arrays, is_causal=is_causal, scale=scale)

    return differentiate


def _find_kernels() -> Any:
    """Imports the kernels: Pallas takes longer to import than oplib, and few traces need them."""
    return importlib.import_module("oplib.ops._flash_kernels")


# Derivatives ------------------------------------------------------------------------------------------------


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Any, grad_total: Any) -> tuple[Any, ...]:
    *operands, result, total = ctx.saved_tensors
    if grad is None:
        grad = jnp.zeros_like(result)
    slopes, result = (lax.convert_element_type(one, total.dtype) for one in (grad, result))
    delta = jnp.sum(slopes * result, axis=-1)
    if grad_total is not None:
        delta = delta - grad_total
    backward = ops.oplib.flash_attention_backward.default
    return (*backward(*operands, total, delta, grad, *ctx.options), None, None, None)


def _save_inputs(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(*inputs[:6])
    ctx.options = inputs[6:]


def _backward_again(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    _, pull = jax.vjp(lambda *arrays: _differentiate(*arrays, *ctx.options), *ctx.saved_tensors)
    return (*pull(grads), None, None, None)


def _push_through(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The forward derivative of a formula, by JAX; its last three arguments are no tensors."""

    def push(primals: Any, tangents: Any) -> Any:
        *arrays, is_causal, scale, enable_gqa = primals
        pairs = zip(arrays, tangents, strict=False)
        given = [jnp.zeros_like(one) if tangent is None else tangent for one, tangent in pairs]
        return jax.jvp(lambda *values: formula(*values, is_causal, scale, enable_gqa), arrays, given)

    return push


_SOURCE = "torch.nn.functional.scaled_dot_product_attention"
_OPTIONS = "bool is_causal, float scale, bool enable_gqa"
ROWS = (
    Row(
        f"flash_attention(Tensor query, Tensor key, Tensor value, {_OPTIONS}) -> (Tensor, Tensor)",
        _attend,
        "attention without a mask; and the logarithms of the sums of exponentials",
        derivative=Derivative(backward=_backward, setup_context=_save),
        kernels=(("tpu", _attend_on("tpu")), ("gpu", _attend_on("gpu"))),
        jvp=_push_through(_attend),
        source=_SOURCE,
        dtypes="hf",
    ),
    Row(
        "flash_attention_backward(Tensor query, Tensor key, Tensor value, Tensor total, Tensor delta, "
        f"Tensor grad, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
        _differentiate,
        "gradients of query, key and value of flash_attention",
        derivative=Derivative(backward=_backward_again, setup_context=_save_inputs),
        kernels=(("tpu", _differentiate_on("tpu")), ("gpu", _differentiate_on("gpu"))),
        jvp=_push_through(_differentiate),
        source=_SOURCE,
        dtypes="hf",
    ),
)
