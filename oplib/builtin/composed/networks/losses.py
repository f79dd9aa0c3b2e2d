"""Losses with the signatures of ``torch.nn.functional``, including older arguments and weights."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.losses.margins import check_margin
from oplib.builtin.values import is_traced
from oplib.docstrings import complete_docstring
from oplib.errors import ArgumentError, ArgumentValueError
from oplib.generated_code import parse_literal
from oplib.library.arguments.recording import unbox
from oplib.tensor import Tensor
from oplib.tracebacks import warn_user

_OLDER = "size_average=None, reduce=None, reduction='mean'"
_CLASSES = "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'"
WRITTEN_LOSSES = {
    "mse_loss": f"input, target, {_OLDER}, weight=None",
    "l1_loss": f"input, target, {_OLDER}, weight=None",
    "smooth_l1_loss": f"input, target, {_OLDER}, beta=1.0",
    "huber_loss": "input, target, reduction='mean', delta=1.0, weight=None",
    "kl_div": f"input, target, {_OLDER}, log_target=False",
    "nll_loss": _CLASSES,
    "cross_entropy": f"{_CLASSES}, label_smoothing=0.0",
    "binary_cross_entropy": f"input, target, weight=None, {_OLDER}",
    "binary_cross_entropy_with_logits": f"input, target, weight=None, {_OLDER}, pos_weight=None",
    "triplet_margin_loss": f"anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, {_OLDER}",
    "margin_ranking_loss": f"input1, input2, target, margin=0, {_OLDER}",
    "hinge_embedding_loss": f"input, target, margin=1.0, {_OLDER}",
    "cosine_embedding_loss": f"input1, input2, target, margin=0, {_OLDER}",
    "soft_margin_loss": f"input, target, {_OLDER}",
    "multi_margin_loss": f"input, target, p=1, margin=1.0, weight=None, {_OLDER}",
    "multilabel_margin_loss": f"input, target, {_OLDER}",
    "multilabel_soft_margin_loss": f"input, target, weight=None, {_OLDER}",
    "poisson_nll_loss": (
        "input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, "
        "reduction='mean'"
    ),
}
_OF_PAIRS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_WEIGHTED = ("mse_loss", "l1_loss", "huber_loss")  # the others pass the weight to their op


_FURTHER = {
    "weight": "a tensor, by default None; factors of the losses, of their shape.",
    "size_average": "a bool, by default None; an older name, False for `reduction='sum'`.",
    "reduce": "a bool, by default None; an older name, False for `reduction='none'`.",
}


def read_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """Returns the reduction that torch's older arguments mean, of which one at least is given."""
    if reduce is False:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def match_sizes(name: str, first: Any, target: Any) -> tuple[Any, Any]:
    """Warns, as torch does, if input and target are broadcast, which is rarely intended.

    A Tensor without dimensions is given some, as in torch: its dtype then counts.
    """
    if not (hasattr(first, "shape") and hasattr(target, "shape")):
        return first, target  # the op raises an error
    if tuple(first.shape) != tuple(target.shape):
        warn_user(
            f"{name}: Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(first.shape)}). They are broadcast to one; ensure they have the same size."
        )
        if isinstance(first, Tensor) and isinstance(target, Tensor):
            return (first if first.ndim else first.expand(target.shape)), (
                target if target.ndim else target.expand(first.shape)
            )
    return first, target


def weigh(name: str, losses: Any, weight: Any, reduction: str) -> Any:
    """Weights losses; their mean is divided by the sum of weights, for huber_loss by the number of items."""
    if tuple(weight.shape) != tuple(losses.shape):
        raise ArgumentValueError("weights and input must have the same size", "Expand the weights.")
    weighted = losses * weight
    if reduction == "none":
        return weighted
    if reduction == "mean" and name == "huber_loss":
        return weighted.mean()
    return weighted.sum() if reduction == "sum" else weighted.sum() / weight.sum()


def render_loss(name: str) -> tuple[list[Parameter], list[str], dict[str, Any], str | None]:
    """Returns torch's parameters of a loss, the lines of its body, what these refer to, and its docstring."""
    parameters = [_make_parameter(*text.partition("=")) for text in WRITTEN_LOSSES[name].split(", ")]
    names = [parameter.name for parameter in parameters]
    left_out = {"size_average", "reduce", "reduction", *(("weight",) if name in _WEIGHTED else ())}
    passed = [f"{parameter}={parameter}" for parameter in names if parameter not in left_out]
    call = ", ".join(passed)
    lines: list[str] = []
    if "size_average" in names:
        lines.append("    if size_average is not None or reduce is not None:")
        lines.append("        reduction = __read(size_average, reduce)")
    if name in _OF_PAIRS:
        lines.append(f"    input, target = __match({name!r}, input, target)")
    if name in _WEIGHTED:
        lines.append("    if weight is not None:")
        lines.append(f"        return __weigh({name!r}, __op({call}, reduction='none'), weight, reduction)")
    lines.append(f"    return __op({call}, reduction=reduction)")
    op = getattr(ops, name)
    doc = complete_docstring(
        op.__doc__, {parameter: _FURTHER[parameter] for parameter in names if parameter in _FURTHER}
    )
    used = {"__op": op, "__read": read_reduction, "__match": match_sizes, "__weigh": weigh}
    return parameters, lines, used, doc


def _make_parameter(name: str, _: str, default: str) -> Parameter:
    value = parse_literal(default) if default else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value)


# Of distances and distributions -----------------------------------------------------------------------------


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """Computes how far the distance to the positive is from being smaller, by a margin, than to the negative.

    Args:
        anchor: ``[..., size]``, real.
        positive: ``[..., size]``, real.
        negative: ``[..., size]``, real.
        distance_function: returns one distance per pair of vectors; by default pairwise_distance.
        margin: the margin, a positive number.

    Returns:
        The loss, or one loss per anchor with "none".

    Raises:
        ArgumentValueError: the margin is not positive, or the reduction is invalid.
        ArgumentError: the tensors have different numbers of dimensions.

    Gradient:
        With respect to all three, where the loss is not 0.

    Example:
        >>> anchor, near, far = (oplib.tensor([[one]]) for one in (0.0, 1.0, 3.0))
        >>> oplib.nn.functional.triplet_margin_with_distance_loss(anchor, near, far, margin=3.0)
        tensor(1.)
    """
    name = "triplet_margin_with_distance_loss"
    check_margin(margin)
    if reduction not in ("none", "mean", "sum"):
        raise ArgumentValueError(
            f"{name}: {reduction!r} is not a valid value for reduction. Choose 'none', 'mean' or 'sum'."
        )
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ArgumentError("the tensors are expected to have the same number of dimensions", "Reshape them.")
    measure = ops.pairwise_distance if distance_function is None else distance_function
    near, far = measure(anchor, positive), measure(anchor, negative)
    far = ops.minimum(far, measure(positive, negative)) if swap else far
    losses = ops.clamp_min(margin + near - far, 0)
    return losses if reduction == "none" else ops.sum(losses) if reduction == "sum" else ops.mean(losses)


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Computes the negative log-likelihoods of normally distributed numbers.

    Args:
        input: a tensor, the means.
        target: the numbers; the shapes broadcast.
        var: the variances: a number, or a tensor of the shape of the input, possibly with an axis of size 1,
            or without the last axis.
        eps: the lower bound of the variances.

    Returns:
        The loss, or one loss per item with "none".

    Raises:
        ArgumentValueError: a known variance is negative or has another shape, or the reduction is invalid.

    Gradient:
        With respect to all three; a variance below eps gets the gradient of eps.

    Example:
        >>> oplib.nn.functional.gaussian_nll_loss(oplib.tensor([1.0]), oplib.tensor([2.0]), 1.0)
        tensor(0.5000)
    """
    variances = ops.ones_like(input) * var if isinstance(var, float) else var
    values = unbox(variances)
    is_known = hasattr(values, "dtype") and not is_traced(values)
    if is_known and np.dtype(values.dtype).kind != "c" and bool((values < 0).any()):
        raise ArgumentValueError("var has negative entry/entries", "Variances are 0 or more.")
    return ops.gaussian_nll_loss(input, target, variances, full, eps, reduction=reduction)


COMPOSED = (
    Composed(gaussian_nll_loss, in_networks=True),
    Composed(triplet_margin_with_distance_loss, in_networks=True),
)
