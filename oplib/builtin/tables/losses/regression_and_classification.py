"""Losses, and the similarity of vectors; the names of ``oplib.nn.functional``."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import LossRow
from oplib.builtin.shared_kernels.dims import find_dims
from oplib.builtin.shared_kernels.index_rules import take_slices
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    check_dtypes,
    in_single,
    is_integral,
    meet,
    promote_operands,
    strong,
)
from oplib.builtin.tables.pointwise.arithmetic_operators import find_size
from oplib.builtin.tables.reductions.moments import compute_norm
from oplib.errors import ArgumentError, ArgumentValueError, DimensionError
from oplib.tensor import default_int_dtype


def reduce_losses(losses: Any, reduction: str, *, weights: Any = None) -> Any:
    """Returns the losses, their sum, or their weighted mean.

    Raises:
        ArgumentValueError: the reduction is unknown.
        ArgumentError: the reduction is a mean of integers.
    """
    if reduction == "none":
        return losses
    if reduction == "sum":
        return jnp.sum(losses, dtype=default_int_dtype() if is_integral(losses.dtype) else None)
    if reduction == "mean":
        if is_integral(losses.dtype):
            raise ArgumentError(
                "could not infer output dtype of a mean of integers",
                "Convert them: tensor.float(), or choose reduction='sum'.",
            )
        if weights is None:
            return in_single(jnp.mean)(losses)
        return in_single(lambda total, all_weights: jnp.sum(total) / jnp.sum(all_weights))(losses, weights)
    raise ArgumentValueError(
        f"{reduction!r} is not a valid value for reduction", "Choose 'none', 'mean' or 'sum'."
    )


def _compare_pairs(function: Any, input: Any, target: Any, *numbers: Any, reduction: str = "mean") -> Any:
    """Computes a loss of pairs of items."""
    compute = in_single(lambda x, y: reduce_losses(function(x, y, *numbers), reduction))
    return compute(*meet(input, target))


def _size(x: Any) -> Any:
    """Returns the absolute value, whose gradient at 0 and at nan is 0."""
    return jnp.abs(x) if x.dtype.kind in "uc" else find_size(x)


def _smooth_l1(x: Any, y: Any, beta: float) -> Any:
    if beta < 0:
        raise ArgumentError("does not support negative values for beta", "Give one >= 0.")
    difference = x - y
    size = _size(difference)
    if not beta:
        return size
    is_far = size >= beta
    # A finite argument, so that no gradient becomes nan; the size has no second derivative at 0.
    near = jnp.where(is_far, 0, difference)
    return jnp.where(is_far, size - 0.5 * beta, 0.5 * near * near / beta)


def _huber(x: Any, y: Any, delta: float) -> Any:
    if delta <= 0:
        raise ArgumentError("does not support non-positive values for delta", "Give one > 0.")
    difference = x - y
    size = _size(difference)
    is_far = size > delta
    near = jnp.where(is_far, 0, difference)
    return jnp.where(is_far, delta * (size - 0.5 * delta), 0.5 * near * near)


def _kl_div(x: Any, y: Any, log_target: bool) -> Any:
    if log_target:
        return lax.exp(y) * (y - x)
    is_none = y == 0
    entropy = jnp.where(is_none, 0, y * lax.log(jnp.where(is_none, 1, y)))
    return entropy - y * x


def _kernel_kl_div(input: Any, target: Any, *, log_target: bool = False, reduction: str = "mean") -> Any:
    is_mean = reduction == "batchmean"

    def compute(x: Any, y: Any) -> Any:
        loss = reduce_losses(_kl_div(x, y, log_target), "sum" if is_mean else reduction)
        return loss / input.shape[0] if is_mean else loss

    return in_single(compute)(*meet(input, target))


PAIRS = (
    LossRow(
        "mse_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        partial(_compare_pairs, lambda x, y: lax.square(x - y)),
        "squared differences",
    ),
    LossRow(
        "l1_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor",
        partial(_compare_pairs, lambda x, y: _size(x - y)),
        "absolute differences",
        dtypes="ihfc",
    ),
    LossRow(
        "smooth_l1_loss(Tensor input, Tensor target, float beta=1., *, str reduction='mean') -> Tensor",
        partial(_compare_pairs, _smooth_l1),
        "squared differences / (2 beta) below beta, absolute differences - beta / 2 above",
    ),
    LossRow(
        "huber_loss(Tensor input, Tensor target, float delta=1., *, str reduction='mean') -> Tensor",
        partial(_compare_pairs, _huber),
        "half the squared differences below delta, delta * (absolute differences - delta / 2) above",
    ),
    LossRow(
        "kl_div(Tensor input, Tensor target, *, bool log_target=False, str reduction='mean') -> Tensor",
        _kernel_kl_div,
        "target * (log(target) - input), where input contains logarithms",
    ),
)

# Of classes -------------------------------------------------------------------------------------------------


def _bce(input: Any, target: Any, weight: Any = None, *, reduction: str = "mean") -> Any:
    if input.shape != target.shape:
        raise ArgumentValueError(
            "using a target size that is different to the input size is deprecated",
            "Please ensure they have the same size.",
        )
    check_dtypes(input, target, weight)
    factors = None if weight is None else broadcast([weight, input])[0]

    def compute(x: Any, y: Any, w: Any) -> Any:
        losses = _lack_of_belief(x, y)
        return reduce_losses(losses if w is None else losses * w, reduction)

    return in_single(compute)(input, target, factors)


@jax.custom_jvp
def _lack_of_belief(x: Any, y: Any) -> Any:
    """Computes ``-y log(x) - (1 - y) log(1 - x)``, with torch's gradients where a logarithm is clipped."""
    return -(y * _clip_log(x) + (1 - y) * _clip_log_of_rest(x))


@_lack_of_belief.defjvp
def _push_lack_of_belief(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, y = primals
    rest = 1 - x
    by_x = (x - y) / jnp.maximum(rest * x, 1e-12)
    by_y = _clip_log_of_rest(x) - _clip_log(x)
    return _lack_of_belief(x, y), by_x * tangents[0] + by_y * tangents[1]


def _clip_log(x: Any) -> Any:
    """Clips a logarithm at -100, so that one item cannot make the mean infinite."""
    is_none = x <= 0
    return _clip(lax.log(jnp.where(is_none, 1, x)), is_none)


def _clip_log_of_rest(x: Any) -> Any:
    """Clips log(1 - x), which keeps the digits of a small x."""
    is_none = x >= 1
    return _clip(lax.log1p(jnp.where(is_none, 0, -x)), is_none)


def _clip(log: Any, is_none: Any) -> Any:
    return jnp.where(is_none | (log < -100), -100, log)


def _bce_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, *, reduction: str = "mean"
) -> Any:
    if input.shape != target.shape:
        raise ArgumentValueError("target size must be the same as input size", "Reshape one of them.")
    x, y = (lax.convert_element_type(array, promote_operands(input, target)) for array in (input, target))
    log = -jnp.logaddexp(-x, strong(0, x))  # log(sigmoid(x)), smooth at 0; log(sigmoid(-x)) is log - x
    if pos_weight is None:
        losses = (1 - y) * x - log
    else:
        losses = -(y * broadcast([pos_weight, x])[0] * log + (1 - y) * (log - x))
    return reduce_losses(losses if weight is None else losses * broadcast([weight, x])[0], reduction)


def _check_classes(kind: type[ArgumentError], input: Any, target: Any, weight: Any, *, axis: int) -> None:
    """Checks the class targets, which are integers, and the weights; a 0-dim input raises ``kind``."""
    if not input.ndim:
        raise kind("expected 1 or more dimensions", "Add one: unsqueeze(0).")
    if target.dtype.kind not in "iu":
        raise ArgumentError("expected integers for classes", "Convert them: tensor.long().")
    if weight is None:
        return
    check_dtypes(input, weight)
    if weight.shape != (input.shape[axis],):
        raise ArgumentError(
            f"weight tensor should be defined either for all {input.shape[axis]} classes or no classes",
            "Give one number for each.",
        )


def _check_target(input: Any, target: Any, axis: int) -> None:
    expected = tuple(size for index, size in enumerate(input.shape) if index != axis)
    if target.shape != expected:
        raise ArgumentValueError(
            f"expected a target of shape {list(expected)}", "Give one class for each place."
        )


def _nll(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Computes the loss of log-probabilities with the classes along axis 1, or 0 without a batch."""
    axis = 1 if input.ndim > 1 else 0
    _check_classes(ArgumentValueError, input, target, weight, axis=axis)
    _check_target(input, target, axis)
    if target.dtype.itemsize < 4:  # unsigned bytes, which do not hold -100
        target = lax.convert_element_type(target, jnp.int32)

    def compute(input: Any, weight: Any) -> Any:
        counts = target != ignore_index
        classes = jnp.where(counts, target, 0)
        picked = jnp.take_along_axis(input, lax.expand_dims(classes, (axis,)), axis, mode="clip")
        factors = lax.convert_element_type(counts, input.dtype)
        if weight is not None:
            factors = factors * take_slices(weight, [classes], "clip", "weight")
        losses = -lax.squeeze(picked, (axis,)) * factors
        loss = reduce_losses(losses, reduction, weights=factors)
        if not label_smoothing:
            return loss
        spread = input if weight is None else input * _along_axis(weight, input, axis)
        smooth = -jnp.sum(spread, axis) * lax.convert_element_type(counts, input.dtype)
        part, rest = label_smoothing / input.shape[axis], 1 - label_smoothing
        return rest * loss + part * reduce_losses(smooth, reduction, weights=factors)

    return in_single(compute)(input, weight)


def _along_axis(weight: Any, like: Any, axis: int) -> Any:
    shape = [1] * like.ndim
    shape[axis] = weight.size
    return jnp.broadcast_to(lax.reshape(weight, shape), like.shape)


def _cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    axis = 1 if input.ndim > 1 else 0
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError("label_smoothing must be between 0.0 and 1.0", "Give a share.")
    if is_integral(target.dtype) or not input.ndim:
        _check_classes(DimensionError, input, target, weight, axis=axis)
    elif ignore_index >= 0:
        raise ArgumentError("ignore_index is not supported for a target of probabilities", "Leave it out.")
    logs = in_single(lambda x: jax.nn.log_softmax(x, axis))(input)
    if is_integral(target.dtype):
        return _nll(
            logs,
            target,
            weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    return _cross_entropy_of_shares(
        logs, target, weight, axis, reduction=reduction, label_smoothing=label_smoothing
    )


def _cross_entropy_of_shares(
    logs: Any, target: Any, weight: Any, axis: int, *, reduction: str, label_smoothing: float
) -> Any:
    """Computes the loss for a target that contains a probability for each class."""
    if target.shape != logs.shape:
        raise ArgumentValueError(
            "a target of probabilities has the shape of the input", "Give integers for classes."
        )

    def compute(logs: Any, target: Any, weight: Any) -> Any:
        rest, part = 1 - label_smoothing, label_smoothing / logs.shape[axis]
        weighted = logs if weight is None else logs * _along_axis(weight, logs, axis)
        losses = -jnp.sum(weighted * (target * rest + part), axis)
        if reduction != "mean":
            return reduce_losses(losses, reduction)
        return jnp.sum(losses) / max(losses.size, 1)

    return in_single(compute)(logs, target, weight)


def _cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    x, y = meet(x1, x2)
    axes = find_dims(x, (dim,))

    def scale(vectors: Any) -> Any:
        length = compute_norm(vectors, 2, axes, keepdim=True)
        return vectors / jnp.where(length < eps, eps, length)

    return in_single(lambda x, y: jnp.sum(scale(x) * scale(y), axes))(x, y)


_CLASSES = "*, int ignore_index=-100, str reduction='mean'"
CLASSES = (
    LossRow(
        "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, *, str reduction='mean') "
        "-> Tensor",
        _bce,
        "binary cross entropy of probabilities",
    ),
    LossRow(
        "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
        "Tensor? pos_weight=None, *, str reduction='mean') -> Tensor",
        _bce_with_logits,
        "binary cross entropy of the sigmoid",
    ),
    LossRow(
        f"nll_loss(Tensor input, Tensor target, Tensor? weight=None, {_CLASSES}) -> Tensor",
        _nll,
        "negative log-likelihoods of the target classes",
    ),
    LossRow(
        f"cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {_CLASSES}, "
        "float label_smoothing=0.) -> Tensor",
        _cross_entropy,
        "nll_loss of log_softmax; the target contains classes or probabilities",
    ),
    LossRow(
        "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        _cosine_similarity,
        "cosine of the angle between vectors along a dim",
        autocast="cuda float32",
    ),
)

ROWS = (*PAIRS, *CLASSES)
