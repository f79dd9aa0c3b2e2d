"""Functions of networks as in ``torch.nn.functional``, with its deprecated arguments and checks of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.argument_checks.value_checks import check_index_range
from oplib.builtin.composed.wider_signatures import shorten_rows
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, read_known
from oplib.errors import ArgumentError, ArgumentValueError, UnsupportedArgumentError
from oplib.tensor import Generator
from oplib.tracebacks import warn_user

# Grids ------------------------------------------------------------------------------------------------------


def _warn_of_corners(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warn_user(
            f"{name}: align_corners is False by default, in torch since 1.3.0. Pass "
            "align_corners=False, or True for the behaviour before."
        )
    return bool(align_corners)


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Samples an image, or a volume, at the coordinates of a grid.

    Args:
        input: ``[N, C, H, W]`` or ``[N, C, D, H, W]``.
        grid: ``[N, ..., 2]`` or ``[N, ..., 3]``, from -1 to 1, x first.

    Returns:
        ``[N, C, ...]``, the interpolated items at the coordinates of the grid.

    Raises:
        ArgumentValueError: a mode is invalid.
        ArgumentError: the shapes or dtypes do not fit.

    Gradient:
        With respect to both; for the grid it is 0 with "nearest", and where a coordinate is clipped.

    Example:
        >>> image = oplib.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> grid = oplib.tensor([[[[0.0, 0.0], [0.5, -0.5]]]])
        >>> oplib.nn.functional.grid_sample(image, grid, align_corners=False)
        tensor([[[[2.5000, 2.0000]]]])
    """
    return ops.grid_sample(input, grid, mode, padding_mode, _warn_of_corners("grid_sample", align_corners))


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """Computes the coordinates of an image after affine maps, for grid_sample.

    Args:
        theta: ``[N, 2, 3]``, or ``[N, 3, 4]`` for volumes; floating.
        size: the shape of the images, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: as for grid_sample.

    Returns:
        ``[N, H, W, 2]`` or ``[N, D, H, W, 3]``.

    Raises:
        ArgumentValueError: theta does not fit the size, or the size is empty.
        UnsupportedArgumentError: the size has another number of dimensions.

    Gradient:
        With respect to theta; the result is linear in it.

    Example:
        >>> theta = oplib.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> oplib.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=False)
        tensor([[[[-0.5000,  0.0000],
                  [ 0.5000,  0.0000]]]])
    """
    return ops.affine_grid(theta, list(size), _warn_of_corners("affine_grid", align_corners))


# Bags -------------------------------------------------------------------------------------------------------


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Computes sums, means or maxima of bags of rows of ``weight``.

    Args:
        input: the indices of rows: ``[B, L]`` for bags of one size, or a vector with ``offsets``.
        weight: the table, ``[count, size]``.
        per_sample_weights: factors of the rows, in the shape of the input; only for "sum".
        padding_idx: a row that is ignored.

    Returns:
        ``[B, size]``; zeros for an empty bag.

    Raises:
        ArgumentValueError: the shapes do not fit, or the mode is invalid.
        ArgumentError: the offsets do not start at 0, or ``padding_idx`` does not exist.
        DimensionError: a known index is out of range.
        UnsupportedArgumentError: sparse gradients, or factors with another mode than "sum".

    Gradient:
        With respect to the weight and the factors; for "max" it goes to the first of equal items.

    Example:
        >>> table = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> oplib.nn.functional.embedding_bag(oplib.tensor([[0, 1], [1, 1]]), table)
        tensor([[2., 3.],
                [3., 4.]])
    """
    _check_bags(input, weight, offsets, per_sample_weights)
    _check_mode(mode, per_sample_weights, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if input.ndim == 2:
        include_last_offset = False
        offsets = box_like(input, np.arange(input.shape[0]) * input.shape[1], input.dtype)
        input = ops.reshape(input, (-1,))  # noqa: A001
        if per_sample_weights is not None:
            per_sample_weights = ops.reshape(per_sample_weights, (-1,))
    _check_indices(input, weight, offsets, padding_idx)
    if max_norm is not None:
        shorten_rows(input, weight, max_norm, norm_type)
    index = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return ops.embedding_bag(
        weight,
        input,
        offsets,
        per_sample_weights,
        mode=mode,
        include_last_offset=include_last_offset,
        padding_idx=index,
        scale_grad_by_freq=scale_grad_by_freq,
    )


def _check_bags(input: Any, weight: Any, offsets: Any, per_sample_weights: Any) -> None:
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ArgumentValueError(
            "per_sample_weights must have the same shape as the input", "Pass one for each index."
        )
    if weight.ndim != 2 or input.ndim not in (1, 2):
        raise ArgumentValueError("weight has to be a matrix, input a vector or a matrix", "Reshape them.")
    if (offsets is None) != (input.ndim == 2) or (offsets is not None and offsets.ndim != 1):
        raise ArgumentValueError(
            "offsets, a vector, go with an input that is a vector",
            "Give a matrix with one bag in each row, or offsets.",
        )


def _check_mode(mode: str, per_sample_weights: Any, *, scale_grad_by_freq: bool, sparse: bool) -> None:
    if mode not in ("sum", "mean", "max") or (mode == "max" and (scale_grad_by_freq or sparse)):
        raise ArgumentValueError(
            "mode has to be one of sum, mean or max, and max takes neither scale_grad_by_freq nor sparse",
            "Choose another.",
        )
    if sparse:
        raise UnsupportedArgumentError("there are no sparse gradients", "Leave it out for a dense one.")
    if per_sample_weights is not None and mode != "sum":
        raise UnsupportedArgumentError("per_sample_weights is only supported for mode='sum'", "Leave it out.")


def _check_indices(input: Any, weight: Any, offsets: Any, padding_idx: int | None) -> None:
    check_index_range(input, weight.shape[0])
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError(
            "padding_idx must be within the number of embeddings", f"Give one below {weight.shape[0]}."
        )
    values = read_known(offsets)
    if values is not None and values.size and (values[0] != 0 or values[-1] > input.shape[0]):
        raise ArgumentError(
            "offsets[0] has to be 0, and the last no more than the length of the input; they are "
            f"{values[0]} and {values[-1]}",
            "Let the first bag begin at 0.",
        )


# Alignment --------------------------------------------------------------------------------------------------


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Computes the negative log-likelihoods of label sequences over all alignments (CTC).

    Args:
        log_probs: ``[T, N, C]``, or ``[T, C]`` for one sequence; logarithms of probabilities.
        input_lengths: the number of time steps of each sequence, a tensor or numbers.
        reduction: "none", "mean" of losses divided by the numbers of labels, or "sum".

    Returns:
        The loss, or losses ``[N]`` with "none".

    Raises:
        ArgumentError: the lengths, the labels or the blank do not fit.
        ArgumentValueError: the reduction is invalid.

    Gradient:
        The derivative by ``log_probs``. PyTorch returns another, which is the same after log_softmax.

    Source:
        torch.nn.functional.ctc_loss; Graves and others, Connectionist Temporal Classification, 2006.

    Example:
        >>> chances = oplib.tensor([[[0.5, 0.5]], [[0.5, 0.5]]]).log()
        >>> oplib.nn.functional.ctc_loss(chances, oplib.tensor([[1]]), (2,), (1,))
        tensor(0.2877)
    """
    lengths = [
        box_like(targets, numbers, targets.dtype) if isinstance(numbers, (int, list, tuple)) else numbers
        for numbers in (input_lengths, target_lengths)
    ]
    _check_lengths(log_probs, targets, *map(read_known, lengths))
    return ops.ctc_loss(log_probs, targets, *lengths, blank, reduction=reduction, zero_infinity=zero_infinity)


def _check_lengths(log_probs: Any, targets: Any, of_inputs: Any, of_targets: Any) -> None:
    count = log_probs.shape[1] if log_probs.ndim == 3 else 1
    if (
        of_inputs is not None
        and of_inputs.size
        and not 0 <= of_inputs.min() <= of_inputs.max() <= log_probs.shape[0]
    ):
        raise ArgumentError(
            f"expected input_lengths to have value at most {log_probs.shape[0]}; they are from "
            f"{of_inputs.min()} to {of_inputs.max()}",
            "Cut them.",
        )
    if of_targets is None or not of_targets.size:
        return
    is_joined = targets.ndim == 1 and count > 1
    most = of_targets.sum() if is_joined else of_targets.max()
    if of_targets.min() < 0 or most > targets.shape[-1]:
        raise ArgumentError(
            f"expected target_lengths to be at most the number of labels, {targets.shape[-1]}; they are from "
            f"{of_targets.min()} to {of_targets.max()}, and {of_targets.sum()} in all",
            "Cut them.",
        )


# Random choices ---------------------------------------------------------------------------------------------


def gumbel_softmax(
    logits: Any,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: Generator | None = None,
) -> Any:
    """Draws near one-hot vectors with the probabilities of the softmax; the result is differentiable.

    Args:
        logits: a real tensor of any shape.
        tau: the temperature; a lower one gives values nearer to 0 and 1.
        hard: whether the result is one-hot, with the gradient of the soft vectors.
        eps: accepted for parity; it has no effect.
        dim: the dim along which the vectors sum to 1.

    Returns:
        The vectors, in the shape of the logits.

    Raises:
        UnsupportedDtypeError: the logits are not floating.

    Gradient:
        With respect to the logits, that of the shares.

    Source:
        torch.nn.functional.gumbel_softmax; Jang, Gu and Poole, 2017.

    Example:
        >>> oplib.nn.functional.gumbel_softmax(oplib.zeros(2, 3), hard=True).sum(1)
        tensor([1., 1.])
    """
    if eps != 1e-10:  # the caller of the guard and of the further names
        warn_user("gumbel_softmax: eps is deprecated and has no effect. Leave it out.")
    drawn = ops.log(ops.exponential(ops.detach(logits), generator=generator))
    shares = ops.softmax((logits - drawn) / tau, dim)
    if not hard:
        return shares
    index = ops.argmax(ops.detach(shares), dim, True)
    chosen = ops.scatter(ops.zeros_like(ops.detach(shares)), dim, index, 1.0)
    return chosen - ops.detach(shares) + shares


COMPOSED = (
    Composed(affine_grid, in_networks=True),
    Composed(ctc_loss, in_networks=True),
    Composed(embedding_bag, in_networks=True),
    Composed(grid_sample, in_networks=True),
    Composed(gumbel_softmax, in_networks=True),
)
