"""Losses as ``torch.nn.functional`` has them: in its order of arguments, with its older ones and weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from oplib.errors import ArgumentValueError, describe

Function = Callable[..., Any]
Functions = Mapping[str, Function]

_OLDER = "size_average=None, reduce=None, reduction='mean'"
_CLASSES = "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'"
_FORMS = {
    "mse_loss": f"input, target, {_OLDER}, weight=None",
    "l1_loss": f"input, target, {_OLDER}, weight=None",
    "smooth_l1_loss": f"input, target, {_OLDER}, beta=1.0",
    "huber_loss": "input, target, reduction='mean', delta=1.0, weight=None",
    "kl_div": f"input, target, {_OLDER}, log_target=False",
    "nll_loss": _CLASSES,
    "cross_entropy": f"{_CLASSES}, label_smoothing=0.0",
    "binary_cross_entropy": f"input, target, weight=None, {_OLDER}",
    "binary_cross_entropy_with_logits": f"input, target, weight=None, {_OLDER}, pos_weight=None",
}
_OF_PAIRS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_WEIGHTED = ("mse_loss", "l1_loss", "huber_loss")  # the weight of the others is one of the op's


def read_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Returns the reduction that torch's older arguments mean, and the newer one where they are left out."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def warn_of_sizes(name: str, first: Any, target: Any) -> None:
    """Warns, as torch does, where input and target are broadcast, which is rarely meant."""
    if tuple(first.shape) != tuple(target.shape):
        warnings.warn(
            f"{name}: Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(first.shape)}). They are broadcast to one; ensure they have the same size.",
            stacklevel=3,
        )


def weigh(name: str, losses: Any, weight: Any, reduction: str) -> Any:
    """Weighs losses item by item; their mean is by the weights."""
    if tuple(weight.shape) != tuple(losses.shape):
        raise ArgumentValueError(
            f"{name}: weights and input must have the same size. Got {describe(weight)} for losses "
            f"{describe(losses)}. Expand the weights."
        )
    weighted = losses * weight
    if reduction == "none":
        return weighted
    return weighted.sum() if reduction == "sum" else weighted.sum() / weight.sum()


def _make(name: str) -> Callable[[Functions], Function]:
    """Writes the function out as text, with torch's parameters."""
    form = _FORMS[name]
    given = [part.partition("=")[0].strip() for part in form.split(",")]
    passed = [
        f"{one}={one}" for one in given[2:] if one not in ("size_average", "reduce", "reduction", "weight")
    ]
    if name not in _WEIGHTED and "weight" in given:
        passed.append("weight=weight")
    call = ", ".join(["input", "target", *passed])
    lines = [f"def {name}({form}):"]
    if "size_average" in given:
        lines.append("    reduction = __read(size_average, reduce, reduction)")
    if name in _OF_PAIRS:
        lines.append(f"    __warn({name!r}, input, target)")
    if name in _WEIGHTED:
        lines.append("    if weight is not None:")
        lines.append(f"        return __weigh({name!r}, __op({call}, reduction='none'), weight, reduction)")
    lines.append(f"    return __op({call}, reduction=reduction)")

    def make(functions: Functions) -> Function:
        op = functions[name]
        namespace: dict[str, Any] = {"__op": op, "__read": read_reduction, "__warn": warn_of_sizes}
        namespace["__weigh"] = weigh
        exec(compile("\n".join(lines), f"<oplib.{name}>", "exec"), namespace)
        namespace[name].__doc__ = op.__doc__
        return namespace[name]

    return make


LOSSES = {name: _make(name) for name in _FORMS}
