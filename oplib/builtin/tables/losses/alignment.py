"""Alignment: the loss of label sequences over all their alignments with a longer sequence."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import LossRow
from oplib.builtin.shared_kernels.promotion import in_single, strong
from oplib.errors import ArgumentError
from oplib.tensor.dtypes import names as dtypes

from .regression_and_classification import reduce_losses


def _log_sum(*terms: Any) -> Any:
    """Computes log(exp(a) + exp(b) + ...); if all terms are -inf, the gradient is not nan."""
    top = lax.stop_gradient(terms[0])
    for term in terms[1:]:
        top = lax.max(top, lax.stop_gradient(term))
    top = jnp.where(jnp.isinf(top), 0, top)
    total = sum((lax.exp(term - top) for term in terms[1:]), lax.exp(terms[0] - top))
    is_none = total == 0
    return jnp.where(is_none, -math.inf, lax.log(jnp.where(is_none, 1, total)) + top)


def _shift(states: Any, count: int) -> Any:
    """Shifts states to later ones, ``[N, L]``; the first states become -inf."""
    return lax.pad(states, strong(-math.inf, states), [(0, 0, 0), (count, -count, 0)])


def _stretch_labels(targets: Any, blank: int) -> Any:
    """Returns labels with a blank around each, ``[N, 2 S + 1]``."""
    count, length = targets.shape
    states = jnp.full((count, 2 * length + 1), blank, targets.dtype)
    return states.at[:, 1::2].set(targets)


def _run(log_probs: Any, states: Any, input_lengths: Any, target_lengths: Any) -> Any:
    """Runs over the time steps, ``[T, N, C]``; returns the negative log-likelihoods, ``[N]``."""
    count, width = states.shape
    index = jnp.broadcast_to(states, (log_probs.shape[0], count, width))
    emitted = jnp.take_along_axis(log_probs, index, 2, mode="clip")
    nothing = jnp.full((count, width), -math.inf, log_probs.dtype)
    position = lax.broadcasted_iota(dtypes.int32, (count, width), 1)
    may_begin = position <= jnp.where(target_lengths > 0, 1, 0).astype(position.dtype)[:, None]
    is_new = (
        jnp.pad(states[:, 2:] != states[:, :-2], ((0, 0), (2, 0))) if width > 1 else jnp.zeros_like(may_begin)
    )

    def step(before: Any, given: Any) -> tuple[Any, None]:
        time, emission = given
        skipped = jnp.where(is_new, _shift(before, 2), nothing) if width > 1 else nothing
        moved = _log_sum(before, _shift(before, 1), skipped) + emission
        return jnp.where((time < input_lengths)[:, None], moved, before), None

    first = jnp.where(may_begin, emitted[0], nothing)
    unread = jnp.where(position == 0, 0, nothing)
    first = jnp.where((input_lengths > 0)[:, None], first, unread)
    times = lax.iota(input_lengths.dtype, log_probs.shape[0])
    last, _ = lax.scan(step, first, (times[1:], emitted[1:]))
    ends = 2 * target_lengths[:, None]
    on_blank = jnp.take_along_axis(last, ends, 1, mode="clip")[:, 0]
    on_label = jnp.take_along_axis(last, lax.max(ends - 1, jnp.zeros_like(ends)), 1, mode="clip")[:, 0]
    has_label = target_lengths > 0
    return -_log_sum(on_blank, jnp.where(has_label, on_label, -math.inf))


def _pad_targets(targets: Any, target_lengths: Any) -> Any:
    """Returns concatenated targets as rows, each as long as all targets: the lengths are not static."""
    starts = jnp.cumsum(target_lengths) - target_lengths
    index = starts[:, None] + lax.iota(starts.dtype, targets.shape[0])[None]
    return jnp.take(targets, index, mode="clip")


def _check(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int) -> None:
    if log_probs.ndim not in (2, 3) or targets.ndim > 2 or not targets.ndim or 0 in log_probs.shape:
        raise ArgumentError(
            "expected log-probabilities [T, N, C] or [T, C], and targets [N, S] or concatenated",
            "Reshape them.",
        )
    if any(array.dtype.kind not in "iu" for array in (targets, input_lengths, target_lengths)):
        raise ArgumentError("targets and lengths must be integral", "Convert them.")
    if not 0 <= blank < log_probs.shape[-1]:
        raise ArgumentError("blank must be in label range", "Give a label.")
    count = log_probs.shape[1] if log_probs.ndim == 3 else 1
    fits = input_lengths.size == target_lengths.size == count
    if not fits or (targets.ndim == 2 and targets.shape[0] != count):
        raise ArgumentError(f"expected targets and lengths of {count} sequences", "Give one for each.")


def _ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    *,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    _check(log_probs, targets, input_lengths, target_lengths, blank=blank)
    is_batch = log_probs.ndim == 3
    count = log_probs.shape[1] if is_batch else 1
    lengths = [lax.reshape(array, (count,)).astype(dtypes.int32) for array in (input_lengths, target_lengths)]
    rows = lax.convert_element_type(targets, dtypes.int32)
    if rows.ndim == 1:
        rows = _pad_targets(rows, lengths[1]) if count > 1 else rows[None]
    states = _stretch_labels(rows, blank)

    def compute(log_probs: Any) -> Any:
        stacked = log_probs if is_batch else lax.expand_dims(log_probs, (1,))
        losses = _run(stacked, states, *lengths)
        if zero_infinity:
            losses = jnp.where(jnp.isinf(losses), 0, losses)
        if reduction == "mean":
            losses = losses / jnp.maximum(lengths[1].astype(losses.dtype), 1)
        result = losses if is_batch else lax.reshape(losses, ())
        return reduce_losses(result, reduction)

    return in_single(compute)(log_probs)


ROWS = (
    LossRow(
        "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
        "int blank=0, *, str reduction='mean', bool zero_infinity=False) -> Tensor",
        _ctc_loss,
        "negative log-likelihoods of label sequences, summed over all alignments",
        autocast="cpu float32",
    ),
)
