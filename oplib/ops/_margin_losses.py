# ruff: noqa: A002  the parameters are torch's
"""Losses of distances, margins, several labels and distributions; the names of ``oplib.nn.functional``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.errors import ArgumentError, ArgumentValueError, DimensionError, UnsupportedDtypeError, describe
from oplib.tensor import dtypes
from oplib.tensor.dtype_rules import COMPLEX

from ._losses import reduce_losses
from ._moments import compute_norm
from ._products import check_dtypes
from ._promotion import broadcast, broadcast_to, find_dtype, find_shape, in_single, strong, to_floating
from ._table import Row


def _meet(op: str, *operands: Any) -> list[Any]:
    """The operands in their common dtype and shape; integers stay what they are."""
    dtype = find_dtype(*operands)
    return broadcast([lax.convert_element_type(one, dtype) for one in operands], op)


def _subtract(op: str, x: Any, y: Any) -> Any:
    first, second = _meet(op, x, y)
    if first.dtype == dtypes.bool:
        raise UnsupportedDtypeError(
            f"{op}: not implemented for bool. Got {describe(x)} and {describe(y)}. Convert them."
        )
    return first - second


def _cut(x: Any) -> Any:
    """The larger of x and 0, whose gradient at 0 is 1, and at nan 0, as that of torch's clamp."""
    zero = strong(0, x)
    return jnp.where(x >= zero, x, lax.stop_gradient(jnp.where(x < zero, zero, x)))


# Of distances -----------------------------------------------------------------------------------------------


def _measure(difference: Any, p: float, eps: float, *, keepdim: bool = False) -> Any:
    """The length of each last axis."""
    moved = difference + strong(eps, difference)
    return compute_norm(moved, p, (moved.ndim - 1,) if moved.ndim else (), keepdim)


def _pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    away = to_floating(_subtract("pairwise_distance", x1, x2))
    return in_single(lambda away: _measure(away, p, eps, keepdim=keepdim))(away)


def _check_ranks(op: str, *operands: Any) -> None:
    if len({one.ndim for one in operands}) > 1:
        raise ArgumentError(
            f"{op}: the tensors are expected to have the same number of dimensions. Got "
            f"{', '.join(map(describe, operands))}. Add dimensions with unsqueeze."
        )


def check_margin(op: str, margin: float) -> None:
    """Raises where a margin is not positive.

    Raises:
        ArgumentValueError: it is not.
    """
    if margin <= 0:
        raise ArgumentValueError(f"{op}: margin must be greater than 0. Got {margin}. Give a positive one.")


def _triplet(  # noqa: PLR0917  the arguments of the schema
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
    check_margin("triplet_margin_loss", margin)
    _check_ranks("triplet_margin_loss", anchor, positive, negative)
    a, b, c = _meet("triplet_margin_loss", anchor, positive, negative)

    def compute(near: Any, far: Any, other: Any) -> Any:
        one, two = _measure(near, p, eps), _measure(far, p, eps)
        two = jnp.minimum(two, _measure(other, p, eps)) if swap else two
        return reduce_losses("triplet_margin_loss", _cut(strong(margin, one) + one - two), reduction)

    return in_single(compute)(*map(to_floating, (a - b, a - c, b - c)))


def _margin_ranking(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Any:
    _check_ranks("margin_ranking_loss", input1, input2, target)
    away, sign = _meet("margin_ranking_loss", _subtract("margin_ranking_loss", input1, input2), target)

    def compute(behind: Any) -> Any:
        return reduce_losses("margin_ranking_loss", _cut(behind + strong(margin, behind)), reduction)

    return in_single(compute)(to_floating(-sign * away))


def _hinge_embedding(input: Any, target: Any, margin: float = 1.0, *, reduction: str = "mean") -> Any:
    def compute(x: Any, y: Any) -> Any:
        none, one = strong(0, x), strong(1, y)
        short = jnp.where(y != one, _cut(strong(margin, x) - x), none)
        return reduce_losses("hinge_embedding_loss", short + jnp.where(y != -one, x, none), reduction)

    return in_single(compute)(*_meet("hinge_embedding_loss", input, target))


def _cosine_embedding(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Any:
    op = "cosine_embedding_loss"
    if target.ndim > 1 or input1.ndim != target.ndim + 1:
        raise ArgumentError(
            f"{op}: 0D or 1D target tensor expected, with 1D or 2D inputs. Got {describe(target)} for "
            f"{describe(input1)}. Give one target for each row."
        )
    dtype = find_dtype(to_floating(input1), input2, target)
    x, y, sign = (lax.convert_element_type(one, dtype) for one in (input1, input2, target))
    x, y = broadcast([x, y], op)
    shape = find_shape(op, lax.index_in_dim(x, 0, x.ndim - 1, keepdims=False) if x.shape[-1] else sign, sign)

    def compute(x: Any, y: Any, sign: Any) -> Any:
        axis, least = x.ndim - 1, strong(1e-12, x)
        lengths = (jnp.sum(x * x, axis) + least) * (jnp.sum(y * y, axis) + least)
        cosine = broadcast_to(jnp.sum(x * y, axis) / lax.sqrt(lengths), shape)
        sign, one, none = broadcast_to(sign, shape), strong(1, cosine), strong(0, cosine)
        away = jnp.where(sign == -one, _cut(cosine - strong(margin, cosine)), none)
        return reduce_losses(op, jnp.where(sign == one, one - cosine, none) + away, reduction)

    return in_single(compute)(x, y, sign)


DISTANCES = (
    Row(
        "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=1e-06, bool keepdim=False) -> Tensor",
        _pairwise_distance,
        "norms of the differences of vectors along the last dim",
        dtypes="ihfc",
    ),
    Row(
        "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., "
        "float eps=1e-06, bool swap=False, *, str reduction='mean') -> Tensor",
        _triplet,
        "by how much the distance to the positive is not smaller by a margin than that to the negative",
        dtypes="ihfc",
    ),
    Row(
        "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., *, "
        "str reduction='mean') -> Tensor",
        _margin_ranking,
        "by how much input1 is not above input2 by a margin, or below where the target is -1",
        dtypes="ihf",
    ),
    Row(
        "hinge_embedding_loss(Tensor input, Tensor target, float margin=1., *, str reduction='mean') -> "
        "Tensor",
        _hinge_embedding,
        "input where the target is 1, what it lacks to the margin where that is -1",
        dtypes="hf",
    ),
    Row(
        "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., *, "
        "str reduction='mean') -> Tensor",
        _cosine_embedding,
        "1 - cosine where the target is 1, the cosine beyond the margin where that is -1",
        dtypes="bihf",
    ),
)

# Of labels --------------------------------------------------------------------------------------------------


def _soft_margin(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    x, y = _meet("soft_margin_loss", input, target)
    if x.shape != input.shape:
        raise ArgumentError(
            "soft_margin_loss: the target must broadcast to the shape of the input. Got "
            f"{describe(target)} for {describe(input)}. Expand the input."
        )

    def compute(x: Any, y: Any) -> Any:
        z = -y * x
        if z.dtype in COMPLEX:
            return reduce_losses("soft_margin_loss", lax.log1p(lax.exp(z)), reduction)
        return reduce_losses("soft_margin_loss", jnp.logaddexp(z, jnp.zeros_like(z)), reduction)

    return in_single(compute)(x, y)


def _check_labels(op: str, input: Any, target: Any) -> None:
    if input.ndim > 2:
        raise ArgumentError(
            f"{op}: expected a vector, or a matrix with one row for each example. Got {describe(input)}. "
            "Reshape it."
        )
    if target.dtype.kind not in "iu":
        raise ArgumentError(
            f"{op}: expected integers for labels. Got {describe(target)}. Convert them: tensor.int()."
        )


def _multi_margin(
    input: Any,
    target: Any,
    p: float = 1.0,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Any:
    op = "multi_margin_loss"
    _check_labels(op, input, target)
    x = lax.reshape(input, (1,) * (2 - input.ndim) + input.shape)
    _check_multi_margin(x, target, p, weight)
    labels = lax.reshape(target, (x.shape[0], 1))

    def compute(x: Any, *weight: Any) -> Any:
        own = jnp.take_along_axis(x, labels, 1, mode="clip")
        short = strong(margin, x) - broadcast_to(own, x.shape) + x
        is_other = broadcast_to(labels, x.shape) != lax.broadcasted_iota(labels.dtype, x.shape, 1)
        short = jnp.where(is_other & (short > strong(0, x)), short, strong(0, x))
        short = short * short if p == 2 else short
        if weight:
            short = short * jnp.take(weight[0], labels, mode="clip")
        losses = jnp.sum(short, 1) / strong(x.shape[1], x)
        return reduce_losses(op, losses if target.ndim else lax.reshape(losses, ()), reduction)

    return in_single(compute)(*([x] if weight is None else [x, weight]))


def _check_multi_margin(x: Any, target: Any, p: float, weight: Any) -> None:
    if p not in (1, 2):
        raise ArgumentValueError(
            f"multi_margin_loss: only p == 1 and p == 2 are supported. Got {p}. Choose one of them."
        )
    if target.ndim > 1 or target.size != x.shape[0]:
        raise ArgumentError(
            "multi_margin_loss: expected one label for each example. Got "
            f"{describe(target)} for {describe(x)}. Give a vector of {x.shape[0]}."
        )
    if weight is None:
        return
    if weight.ndim != 1:
        raise ArgumentValueError(
            f"multi_margin_loss: weight must be one-dimensional. Got {describe(weight)}. Flatten it."
        )
    if weight.size != x.shape[1]:
        raise ArgumentError(
            f"multi_margin_loss: inconsistent weight size, expected {x.shape[1]}. Got {describe(weight)}. "
            "Give one number for each class."
        )
    check_dtypes("multi_margin_loss", x, weight)


def _multilabel_margin(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """A row of labels ends at the first -1."""
    op = "multilabel_margin_loss"
    _check_labels(op, input, target)
    if target.shape != input.shape:
        raise ArgumentError(
            f"{op}: inconsistent target size. Got {describe(target)} for {describe(input)}. Give as many "
            "labels as classes, and -1 after the last."
        )
    shape = (1,) * (2 - input.ndim) + input.shape
    labels = lax.reshape(target, shape)
    counts = lax.cumprod(lax.convert_element_type(labels >= strong(0, labels), labels.dtype), 1) > strong(
        0, labels
    )
    classes = lax.broadcasted_iota(labels.dtype, (*shape, shape[1]), 2)
    is_class = lax.expand_dims(labels, (2,)) == classes
    is_wanted = jnp.any(is_class & lax.expand_dims(counts, (2,)), 1, keepdims=True)
    matters = lax.expand_dims(counts, (2,)) & ~is_wanted

    def compute(x: Any) -> Any:
        own = jnp.take_along_axis(x, labels, 1, mode="clip")
        short = strong(1, x) - lax.expand_dims(own, (2,)) + lax.expand_dims(x, (1,))
        short = jnp.where(matters & (short > strong(0, x)), short, strong(0, x))
        losses = jnp.sum(short, (1, 2)) / strong(max(x.shape[1], 1), x)
        return reduce_losses(op, losses if input.ndim > 1 else lax.reshape(losses, ()), reduction)

    return in_single(compute)(lax.reshape(input, shape))


def _multilabel_soft_margin(input: Any, target: Any, weight: Any = None, *, reduction: str = "mean") -> Any:
    op = "multilabel_soft_margin_loss"
    if not input.ndim:
        raise DimensionError(
            f"{op}: the input needs a dimension of classes. Got {describe(input)}. Reshape it."
        )
    axis, count = input.ndim - 1, input.shape[-1]

    def compute(x: Any, y: Any, *weight: Any) -> Any:
        size = x * lax.stop_gradient(lax.sign(x))
        losses = (strong(1, y) - y) * x - (lax.min(x, strong(0, x)) - lax.log1p(lax.exp(-size)))
        losses = losses * weight[0] if weight else losses
        return reduce_losses(op, jnp.sum(losses, axis) / strong(count, losses), reduction)

    return in_single(compute)(*_meet(op, *(one for one in (input, target, weight) if one is not None)))


LABELS = (
    Row(
        "soft_margin_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        _soft_margin,
        "log(1 + exp(-target * input)), where targets are 1 and -1",
        dtypes="hfc",
    ),
    Row(
        "multi_margin_loss(Tensor input, Tensor target, float p=1., float margin=1., Tensor? weight=None, *, "
        "str reduction='mean') -> Tensor",
        _multi_margin,
        "by how much other classes are not below the right one by a margin, or the squares of that",
        dtypes="hf",
    ),
    Row(
        "multilabel_margin_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        _multilabel_margin,
        "by how much other classes are not below each right one by 1; labels end at -1",
        dtypes="hf",
    ),
    Row(
        "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, *, "
        "str reduction='mean') -> Tensor",
        _multilabel_soft_margin,
        "means over the classes of the cross entropy of the sigmoid",
        dtypes="hf",
    ),
)

# Of distributions -------------------------------------------------------------------------------------------


def _poisson_nll(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Any:
    x, y = map(to_floating, _meet("poisson_nll_loss", input, target))
    if full and x.dtype in COMPLEX:
        raise UnsupportedDtypeError(
            f"poisson_nll_loss: full=True is not implemented for complex. Got {describe(input)} and "
            f"{describe(target)}. Leave it out."
        )

    def compute(x: Any, y: Any) -> Any:
        losses = lax.exp(x) - y * x if log_input else x - y * lax.log(x + strong(eps, x))
        return reduce_losses("poisson_nll_loss", losses + _stirling(y) if full else losses, reduction)

    return in_single(compute)(x, y)


def _stirling(y: Any) -> Any:
    """Stirling's formula for the logarithm of the factorial of what is above 1."""
    is_small = y <= strong(1, y)
    large = jnp.where(is_small, strong(2, y), y)
    found = large * lax.log(large) - large + strong(0.5, y) * lax.log(strong(2 * math.pi, y) * large)
    return jnp.where(is_small, strong(0, y), found)


def _gaussian_nll(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    *,
    reduction: str = "mean",
) -> Any:
    op = "gaussian_nll_loss"
    if var.shape != input.shape:
        if var.shape == input.shape[:-1]:
            var = lax.expand_dims(var, (var.ndim,))
        elif (
            var.ndim != input.ndim
            or sum(mine for mine, other in zip(var.shape, input.shape, strict=True) if mine != other) != 1
        ):
            raise ArgumentValueError(
                f"{op}: var is of incorrect size. Got {describe(var)} for {describe(input)}. Give one for "
                "each item, or for each vector."
            )

    def compute(x: Any, y: Any, v: Any) -> Any:
        least = strong(eps, v)  # what is below counts as this, and has the gradient all the same
        v = jnp.where(v < least, least + (v - lax.stop_gradient(v)), v)
        losses = strong(0.5, x) * (lax.log(v) + lax.square(x - y) / v)
        losses = losses + strong(0.5 * math.log(2 * math.pi), x) if full else losses
        return reduce_losses(op, losses, reduction)

    return in_single(compute)(*_meet(op, input, target, var))


DISTRIBUTIONS = (
    Row(
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, "
        "float eps=1e-08, *, str reduction='mean') -> Tensor",
        _poisson_nll,
        "what the log-probabilities of counts lack to 0, where the input is a rate, or its logarithm",
        dtypes="ihfc",
    ),
    Row(
        "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-06, *, "
        "str reduction='mean') -> Tensor",
        _gaussian_nll,
        "what the log-densities of numbers lack to 0, where the input is the mean",
        dtypes="hf",
    ),
)

ROWS = tuple(
    replace(row, source=f"torch.nn.functional.{row.op}") for row in (*DISTANCES, *LABELS, *DISTRIBUTIONS)
)
