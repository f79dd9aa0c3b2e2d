"""Losses of distances and margins; the names of ``oplib.nn.functional``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import SELECTED, LossRow
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    broadcast_to,
    find_common_shape,
    in_single,
    meet,
    promote_operands,
    to_floating,
)
from oplib.builtin.tables.reductions.moments import compute_norm
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedDtypeError
from oplib.tensor.dtypes import names as dtypes

from .regression_and_classification import reduce_losses


def _subtract(x: Any, y: Any) -> Any:
    first, second = meet(x, y)
    if first.dtype == dtypes.bool:
        raise UnsupportedDtypeError("not implemented for bool", "Convert them.")
    return first - second


def _cut(x: Any) -> Any:
    """Returns the larger of x and 0, whose gradient is 1 at 0 and 0 at nan, like torch's clamp."""
    return jnp.where(x >= 0, x, lax.stop_gradient(jnp.where(x < 0, 0, x)))


def _measure(difference: Any, p: float, eps: float, *, keepdim: bool = False) -> Any:
    """Returns the length of each vector along the last axis."""
    moved = difference + eps
    return compute_norm(moved, p, (moved.ndim - 1,) if moved.ndim else (), keepdim)


def _pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    away = to_floating(_subtract(x1, x2))
    return in_single(lambda away: _measure(away, p, eps, keepdim=keepdim))(away)


def _check_ranks(*operands: Any) -> None:
    if len({operand.ndim for operand in operands}) > 1:
        raise ArgumentError(
            "the tensors are expected to have the same number of dimensions", "Add dimensions with unsqueeze."
        )


def check_margin(margin: float) -> None:
    """Raises if a margin is not positive.

    Raises:
        ArgumentValueError: it is not positive.
    """
    if margin <= 0:
        raise ArgumentValueError("margin must be greater than 0", "Give a positive one.")


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Any:
    check_margin(margin)
    _check_ranks(positive, negative)
    a, b, c = meet(anchor, positive, negative)

    def compute(near: Any, far: Any, other: Any) -> Any:
        one, two = _measure(near, p, eps), _measure(far, p, eps)
        two = jnp.minimum(two, _measure(other, p, eps)) if swap else two
        return reduce_losses(_cut(margin + one - two), reduction)

    return in_single(compute)(*map(to_floating, (a - b, a - c, b - c)))


def _margin_ranking(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Any:
    _check_ranks(input2, target)
    away, sign = meet(_subtract(input1, input2), target)

    def compute(behind: Any) -> Any:
        return reduce_losses(_cut(behind + margin), reduction)

    return in_single(compute)(to_floating(-sign * away))


def _hinge_embedding(input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean") -> Any:
    def compute(x: Any, y: Any) -> Any:
        short = jnp.where(y != 1, _cut(margin - x), 0)
        return reduce_losses(short + jnp.where(y != -1, x, 0), reduction)

    return in_single(compute)(*meet(input, target))


def _cosine_embedding(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Any:
    if target.ndim > 1 or input1.ndim != target.ndim + 1:
        raise ArgumentError(
            "0D or 1D target tensor expected, with 1D or 2D inputs", "Give one target for each row."
        )
    dtype = promote_operands(to_floating(input1), input2, target)
    x, y, sign = (lax.convert_element_type(array, dtype) for array in (input1, input2, target))
    x, y = broadcast([x, y])
    shape = find_common_shape(
        lax.index_in_dim(x, 0, x.ndim - 1, keepdims=False) if x.shape[-1] else sign, sign
    )

    def compute(x: Any, y: Any, sign: Any) -> Any:
        axis = x.ndim - 1
        lengths = (jnp.sum(x * x, axis) + 1e-12) * (jnp.sum(y * y, axis) + 1e-12)
        cosine = broadcast_to(jnp.sum(x * y, axis) / lax.sqrt(lengths), shape)
        sign = broadcast_to(sign, shape)
        away = jnp.where(sign == -1, _cut(cosine - margin), 0)
        return reduce_losses(jnp.where(sign == 1, 1 - cosine, 0) + away, reduction)

    return in_single(compute)(x, y, sign)


ROWS = (
    LossRow(
        "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False) -> Tensor",
        _pairwise_distance,
        "norms of the differences of vectors along the last dim",
        dtypes="ihfc",
        autocast="",
    ),
    LossRow(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., "
        "float eps=1e-06, bool swap=False, *, str reduction='mean') -> Tensor",
        _triplet,
        "how far the distance to the positive is from being smaller, by a margin, than to the negative",
        dtypes="ihfc",
    ),
    LossRow(
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., *, "
        "str reduction='mean') -> Tensor",
        _margin_ranking,
        "how far input1 is from being above input2 by a margin, or below where the target is -1",
        derivative=SELECTED,
        dtypes="ihf",
    ),
    LossRow(
        "hinge_embedding_loss(Tensor input, Tensor target, float margin=1., *, str reduction='mean') -> "
        "Tensor",
        _hinge_embedding,
        "input where the target is 1, max(0, margin - input) where it is -1",
        derivative=SELECTED,
    ),
    LossRow(
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., *, "
        "str reduction='mean') -> Tensor",
        _cosine_embedding,
        "1 - cosine where the target is 1, max(0, cosine - margin) where it is -1",
        dtypes="bihf",
    ),
)
