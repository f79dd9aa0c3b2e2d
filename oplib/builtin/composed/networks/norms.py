"""Normalisation of channels with running moments, which are updated in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentValueError, describe_dtype
from oplib.tensor import Tensor


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises each channel to mean 0 and variance 1, then scales and shifts it.

    Args:
        input: ``[N, C, ...]``, floating.
        running_mean: ``[C]``, or None in training.
        running_var: ``[C]``, or None in training.
        weight: ``[C]``, the scale; by default 1.
        bias: ``[C]``, the shift; by default 0.
        training: whether to use the moments of the batch. The running moments, which must be Tensors, are
            then updated in place.
        momentum: the weight of the new moments in the update.
        eps: a number to add to the variance.

    Returns:
        A tensor like the input.

    Raises:
        ArgumentError: a shape or dtype does not fit, or running moments to update are no Tensors.
        ArgumentValueError: training with one item per channel.

    Gradient:
        A formula of the op, with respect to input, weight and bias.

    Example:
        >>> x = oplib.tensor([[1.0], [3.0]])
        >>> oplib.nn.functional.batch_norm(x, oplib.ones(1), oplib.ones(1), eps=0.0).tolist()
        [[0.0], [2.0]]
    """
    if tuple(input.shape) == (0,):  # a batch without items needs no channels
        return ops.clone(input)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "running_mean and running_var must be defined in evaluation mode",
                "Pass them, or training=True.",
            )
        return ops.fixed_batch_norm(input, running_mean, running_var, weight, bias, eps)
    _check_running(input, running_mean, running_var)
    count = math.prod(input.shape) // input.shape[1] if input.ndim > 1 else 0
    if count == 1:
        raise ArgumentValueError(
            "expected more than 1 value per channel when training", "Pass a larger batch, or training=False."
        )
    result, mean, variance = ops.native_batch_norm(input, weight, bias, eps)
    if count != 0:  # an empty tensor has no moments
        _move_running(running_mean, mean, momentum)
        _move_running(running_var, variance * (count / max(count - 1, 1)), momentum)
    return result


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalises each channel of each example to mean 0 and variance 1, then scales and shifts it.

    Args:
        input: ``[N, C, ...]``, floating.
        running_mean: ``[C]``, or None. It must be a Tensor, and is updated in place with the average over the
            examples.
        running_var: ``[C]``, or None, updated in the same way.
        weight: ``[C]``, the scale; by default 1.
        bias: ``[C]``, the shift; by default 0.
        use_input_stats: True uses the moments of the input, False the running moments.
        momentum: the weight of the new moments in the update.
        eps: a number to add to the variance.

    Returns:
        A tensor like the input.

    Raises:
        ArgumentError: a shape or dtype does not fit, or running moments to update are no Tensors.
        ArgumentValueError: a channel of an example has one item.

    Gradient:
        A formula of the op, with respect to input, weight and bias.

    Example:
        >>> oplib.nn.functional.instance_norm(oplib.tensor([[[1.0, 3.0]]]), eps=0.0).tolist()
        [[[-1.0, 1.0]]]
    """
    if not use_input_stats:
        return ops.fixed_batch_norm(input, running_mean, running_var, weight, bias, eps)
    if math.prod(input.shape[2:]) == 1:
        raise ArgumentValueError(
            "expected more than 1 spatial element when training",
            "Give more places, or use_input_stats=False.",
        )
    _check_running(input, running_mean, running_var)
    if math.prod(input.shape) != 0 and (running_mean is not None or running_var is not None):
        items = ops.flatten(ops.detach(input), 2)
        _move_running(running_mean, ops.mean(ops.mean(items, -1), 0), momentum)
        _move_running(running_var, ops.mean(ops.var(items, -1), 0), momentum)
    return ops.native_instance_norm(input, weight, bias, eps)


def _check_running(input: Any, *moments: Any) -> None:
    """Checks both moments before one is written."""
    for name, running in zip(("running_mean", "running_var"), moments, strict=True):
        if running is None:
            continue
        if not isinstance(running, Tensor):
            raise ArgumentError(
                f"argument '{name}' is written, and only a Tensor can be",
                f"Pass oplib.Tensor.from_array({name}), and read its array afterwards.",
            )
        is_fit = running.dtype in (input.dtype, np.dtype(np.float32)) and not running.requires_grad
        sizes = tuple(running.shape) if input.ndim < 2 else (input.shape[1],)
        if not is_fit or tuple(running.shape) != sizes:
            due = f"{describe_dtype(input.dtype)}{list(sizes)}"
            raise ArgumentError(
                f"argument '{name}' is to hold one number for each channel, of the dtype of the input or "
                "float32, and to require no grad",
                f"Make it anew: {due}.",
            )


def _move_running(running: Any, new: Any, momentum: float) -> None:
    """Updates a running moment, if it exists, with a new one."""
    if running is not None:
        value = new.detach() if isinstance(new, Tensor) else new
        running.detach().copy_(running.detach() * (1 - momentum) + value * momentum)


COMPOSED = (Composed(batch_norm, in_networks=True), Composed(instance_norm, in_networks=True))
