"""Losses of one or several labels per example; the names of ``oplib.nn.functional``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.autograd.array_functions.masks import pick_given
from oplib.builtin.rows.row import LossRow
from oplib.builtin.shared_kernels.index_rules import take_slices
from oplib.builtin.shared_kernels.promotion import broadcast_to, check_dtypes, in_single, meet, strong
from oplib.errors import ArgumentError, ArgumentValueError, DimensionError
from oplib.tensor.dtypes.rules import COMPLEX

from .regression_and_classification import reduce_losses


def _soft_margin(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    x, y = meet(input, target)
    if x.shape != input.shape:
        raise ArgumentError("the target must broadcast to the shape of the input", "Expand the input.")

    def compute(x: Any, y: Any) -> Any:
        z = -y * x
        if z.dtype in COMPLEX:
            return reduce_losses(lax.log1p(lax.exp(z)), reduction)
        return reduce_losses(jnp.logaddexp(z, jnp.zeros_like(z)), reduction)

    return in_single(compute)(x, y)


def _check_labels(input: Any, target: Any) -> None:
    if input.ndim > 2:
        raise ArgumentError("expected a vector, or a matrix with one row for each example", "Reshape it.")
    if 0 in input.shape[-1:]:
        raise ArgumentError(
            "expected a non-empty vector, or a matrix with classes; it may have no rows",
            "Do not call the op without classes.",
        )
    if target.dtype.kind not in "iu":
        raise ArgumentError("expected integers for labels", "Convert them: tensor.int().")


def _multi_margin(
    input: Any,
    target: Any,
    p: float = 1.0,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Any:
    _check_labels(input, target)
    x = lax.reshape(input, (1,) * (2 - input.ndim) + input.shape)
    _check_multi_margin(x, target, p, weight)
    labels = lax.reshape(target, (x.shape[0], 1))

    def compute(x: Any, weight: Any) -> Any:
        own = jnp.take_along_axis(x, labels, 1, mode="clip")
        short = margin - broadcast_to(own, x.shape) + x
        is_other = broadcast_to(labels, x.shape) != lax.broadcasted_iota(labels.dtype, x.shape, 1)
        short = jnp.where(is_other & (short > 0), short, 0)
        short = short * short if p == 2 else short
        if weight is not None:
            short = short * take_slices(weight, [labels], "clip", "weight")
        losses = jnp.sum(short, 1) / x.shape[1]
        return reduce_losses(losses if target.ndim else lax.reshape(losses, ()), reduction)

    return in_single(compute)(x, weight)


def _check_multi_margin(x: Any, target: Any, p: float, weight: Any) -> None:
    if p not in (1, 2):
        raise ArgumentValueError("only p == 1 and p == 2 are supported", "Choose one of them.")
    if target.ndim > 1 or target.size != x.shape[0]:
        raise ArgumentError("expected one label for each example", f"Give a vector of {x.shape[0]}.")
    if weight is None:
        return
    if weight.ndim != 1:
        raise ArgumentValueError("weight must be one-dimensional", "Flatten it.")
    if weight.size != x.shape[1]:
        raise ArgumentError(
            f"inconsistent weight size, expected {x.shape[1]}", "Give one number for each class."
        )
    check_dtypes(x, weight)


def _multilabel_margin(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Computes the loss of rows of labels; a row ends at the first -1."""
    _check_labels(input, target)
    if target.shape != input.shape:
        raise ArgumentError(
            "inconsistent target size", "Give as many labels as classes, and -1 after the last."
        )
    shape = (1,) * (2 - input.ndim) + input.shape
    labels = lax.reshape(target, shape)
    counts = lax.cumprod(lax.convert_element_type(labels >= 0, labels.dtype), 1) > 0
    classes = lax.broadcasted_iota(labels.dtype, (*shape, shape[1]), 2)
    is_class = lax.expand_dims(labels, (2,)) == classes
    is_wanted = jnp.any(is_class & lax.expand_dims(counts, (2,)), 1, keepdims=True)
    matters = lax.expand_dims(counts, (2,)) & ~is_wanted

    def compute(x: Any) -> Any:
        own = jnp.take_along_axis(x, labels, 1, mode="clip")
        short = 1 - lax.expand_dims(own, (2,)) + lax.expand_dims(x, (1,))
        short = jnp.where(matters & (short > 0), short, 0)
        losses = jnp.sum(short, (1, 2)) / x.shape[1]
        return reduce_losses(losses if input.ndim > 1 else lax.reshape(losses, ()), reduction)

    return in_single(compute)(lax.reshape(input, shape))


def _multilabel_soft_margin(input: Any, target: Any, weight: Any = None, *, reduction: str = "mean") -> Any:
    if not input.ndim:
        raise DimensionError("the input needs a dimension of classes", "Reshape it.")
    axis, count = input.ndim - 1, input.shape[-1]

    def compute(x: Any, y: Any, *weight: Any) -> Any:
        zero = strong(0, x)
        losses = y * jnp.logaddexp(-x, zero) + (1 - y) * jnp.logaddexp(x, zero)
        losses = losses * weight[0] if weight else losses
        return reduce_losses(jnp.sum(losses, axis) / count, reduction)

    return in_single(compute)(*meet(*pick_given((input, target, weight))))


ROWS = (
    LossRow(
        "soft_margin_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        _soft_margin,
        "log(1 + exp(-target * input)), where targets are 1 and -1",
        dtypes="hfc",
    ),
    LossRow(
        "multi_margin_loss(Tensor input, Tensor target, float p=1., float margin=1., Tensor? weight=None, *, "
        "str reduction='mean') -> Tensor",
        _multi_margin,
        "how far other classes are from being below the target class by a margin, or the squares",
    ),
    LossRow(
        "multilabel_margin_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        _multilabel_margin,
        "how far other classes are from being below each target class by 1; labels end at -1",
    ),
    LossRow(
        "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, *, "
        "str reduction='mean') -> Tensor",
        _multilabel_soft_margin,
        "binary cross entropy of the sigmoid, averaged over the classes",
        autocast="",
    ),
)
