"""Attention without a mask, whose saved values grow linearly with the length.

The op returns the result and, for each row, the logarithm of the sum of exponentials. The backward recomputes
the weights from the logarithm (Dao et al., "FlashAttention", 2022). The backward is an op too, so both have a
kernel for accelerators, which computes some rows of scores at a time and never stores them all. CPUs compute
all rows at once, and so do second and forward derivatives on every platform.

The queries ``[..., G, L, E]`` have one axis more than the keys: G of them share each head of keys. So a
sharding rule can declare that batches and heads may be partitioned, and no head is repeated.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Function, Row
from oplib.library import Derivative
from oplib.library.batching_and_sharding.varying import match_varying
from oplib.library.op_objects.namespace import ops
from oplib.protocols import Values
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.shapes.symbolic import has_symbols

from .attention import NAME, check_operands, score
from .dropout import broadcast_like

BLOCK = 256  # of queries whose scores an accelerator holds at a time
SQUARE = 2**18  # from this number of scores per head on, not storing them pays


def pays(query: Any, key: Any, value: Any, *, enable_gqa: bool) -> bool:
    """Tells whether this op is faster: the attention is long enough, and all arguments have one batch."""
    if min(query.ndim, key.ndim, value.ndim) < 2 or 0 in (*query.shape, *key.shape, *value.shape):
        return False
    lengths = query.shape[-2], key.shape[-2]
    if has_symbols(lengths) or lengths[0] * lengths[1] < SQUARE:
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


def _score(query: Any, key: Any, is_causal: bool, scale: float, first: Any) -> Any:
    """Returns the scores ``[..., G*L, S]`` of queries from a position on; -inf for masked keys."""
    scores = score(_flatten(query, key), key, scale)
    if not is_causal:
        return scores
    shape = query.shape[-2], key.shape[-2]
    queries, keys = (lax.broadcasted_iota(dtypes.int32, shape, axis) for axis in (0, 1))
    past = jnp.tile(keys <= queries + first, (query.shape[-3], 1))
    return jnp.where(broadcast_like(past, scores), scores, -jnp.inf)


def _attend(
    query: Any, key: Any, value: Any, is_causal: bool, scale: float, first: Any = 0
) -> tuple[Any, Any]:
    check_operands(query, key, value)
    scores = _score(query, key, is_causal, scale, first)
    weights = lax.convert_element_type(jax.nn.softmax(scores), value.dtype)
    result, total = jnp.matmul(weights, value), jax.nn.logsumexp(scores, axis=-1)
    return lax.reshape(result, (*query.shape[:-1], value.shape[-1])), lax.reshape(total, query.shape[:-1])


def _differentiate(
    query: Any,
    key: Any,
    value: Any,
    total: Any,
    delta: Any,
    grad: Any,
    is_causal: bool,
    scale: float,
    first: Any = 0,
) -> tuple[Any, Any, Any]:
    """``delta``: per row, the product of result and gradient, minus the gradient of ``total``."""
    q, g, *columns = (_flatten(array, key) for array in (query, grad, total, delta))
    total, delta = (jnp.expand_dims(column, -1) for column in columns)
    weights = lax.exp(_score(query, key, is_causal, scale, first) - total)
    wide = weights.dtype
    slopes = jnp.matmul(g, value.mT, preferred_element_type=wide)
    slopes = weights * (lax.convert_element_type(slopes, wide) - delta)
    slopes = lax.convert_element_type(slopes * jnp.asarray(scale, wide), query.dtype)
    weights = lax.convert_element_type(weights, value.dtype)
    of_key, of_value = (jnp.matmul(x.mT, y) for x, y in ((slopes, q), (weights, g)))
    return lax.reshape(jnp.matmul(slopes, key), query.shape), of_key, of_value


# The kernels of accelerators --------------------------------------------------------------------------------


def _split(array: Any, axis: int) -> Any:
    """Returns ``[N, ...]``, blocks of rows along an axis; zeros fill the last block."""
    fill = [(0, -size % BLOCK if place == axis else 0) for place, size in enumerate(array.shape)]
    filled = jnp.pad(array, fill)
    blocks = lax.reshape(
        filled, (*array.shape[:axis], filled.shape[axis] // BLOCK, BLOCK, *array.shape[axis + 1 :])
    )
    return jnp.moveaxis(blocks, axis, 0)


def _join(blocks: Any, axis: int, length: int) -> Any:
    """Undoes ``_split``."""
    rows = jnp.moveaxis(blocks, 0, axis)
    whole = (*rows.shape[:axis], rows.shape[axis] * BLOCK, *rows.shape[axis + 2 :])
    return lax.slice_in_dim(lax.reshape(rows, whole), 0, length, axis=axis)


def _number_rows(blocks: Any) -> Any:
    """Returns the position of the first row of each block."""
    return lax.mul(lax.iota(dtypes.int32, blocks.shape[0]), jnp.int32(BLOCK))


def _attend_by_rows(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> Values:
    check_operands(query, key, value)
    axis = key.ndim - 1
    blocks = _split(query, axis)
    results = lax.map(
        lambda block: _attend(block[1], key, value, is_causal, scale, block[0]),
        (_number_rows(blocks), blocks),
    )
    return tuple(_join(result, axis, query.shape[axis]) for result in results)


def _differentiate_by_rows(
    query: Any, key: Any, value: Any, total: Any, delta: Any, grad: Any, is_causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    axis = key.ndim - 1
    blocks = [_split(array, axis) for array in (query, total, delta, grad)]

    def step(sums: Any, block: Any) -> tuple[Any, Any]:
        first, q, totals, deltas, g = block
        of_query, *parts = _differentiate(q, key, value, totals, deltas, g, is_causal, scale, first)
        wide = [lax.convert_element_type(part, total.dtype) for part in parts]
        return list(map(lax.add, sums, wide)), of_query

    none = [jnp.zeros(array.shape, total.dtype) for array in (key, value)]
    start = match_varying([*none, query, key, value, total, delta, grad])[:2]
    sums, of_query = lax.scan(step, start, (_number_rows(blocks[0]), *blocks))
    of_key, of_value = (lax.convert_element_type(added, key.dtype) for added in sums)
    return _join(of_query, axis, query.shape[axis]), of_key, of_value


# Derivatives ------------------------------------------------------------------------------------------------


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output)
    ctx.options = inputs[3:]
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad: Any, grad_total: Any) -> Values:
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


def _backward_again(ctx: Any, *grads: Any) -> Values:
    _, pull = jax.vjp(lambda *arrays: _differentiate(*arrays, *ctx.options), *ctx.saved_tensors)
    return (*pull(grads), None, None)


def _push_through(formula: Function) -> Function:
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
        kernels=(("tpu", _attend_by_rows), ("gpu", _attend_by_rows)),
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
        kernels=(("tpu", _differentiate_by_rows), ("gpu", _differentiate_by_rows)),
        jvp=_push_through(_differentiate),
        # the gradient of a key is a sum over the queries that share it
        sharding="... g l e, ... s e, ... s v, ... g l, ... g l, ... g l v -> ... g l e, ... s e, ... s v "
        "need_replication={g, l, e, s, v}",
        source=_SOURCE,
        dtypes="hf",
        is_internal=True,
    ),
)
