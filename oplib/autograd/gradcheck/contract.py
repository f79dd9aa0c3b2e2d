"""Checks of the contract of a backward: zeros give zeros, and an absent gradient is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.autograd.engine.backward_and_grad import grad
from oplib.autograd.function import Function
from oplib.errors import GradcheckError
from oplib.tensor import Tensor

from .backward import check_gradient_kind, zero_cotangents
from .problem import Problem, as_tuple, needs_grad


class _UndefinedGrad(Function):
    """The identity. Its backward returns no gradient, not even zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        del ctx, grads


def check_zero_gradients(problem: Problem) -> None:
    """Raises GradcheckError unless zero gradients of the outputs give zero gradients of the inputs."""
    outputs = problem.differentiable_outputs
    found = grad(
        outputs, problem.wanted_inputs, zero_cotangents(outputs), retain_graph=True, allow_unused=True
    )
    for place, gradient in zip(problem.wanted, found, strict=True):
        if gradient is None:
            continue
        check_gradient_kind(gradient.array, problem.inputs[place].array, f"input {place}", check_dtype=True)
        if _is_nonzero(gradient):
            raise GradcheckError(
                "gradcheck: backward not multiplied by grad_output: the gradients of all outputs are zero, "
                f"and that of input {place} is not. Its largest entry is {_largest(gradient):.3g}. Multiply "
                "every term of the formula by the incoming gradient."
            )


def check_undefined_gradients(problem: Problem) -> None:
    """Checks that the backward accepts an absent gradient of any output.

    Computing a Jacobian leaves out the gradients of all outputs but one, so this case is not tried again.

    Raises:
        GradcheckError: the backward raises, or all gradients are absent and it returns nonzero ones.
    """
    found = _pull_back_undefined(problem)
    for place, gradient in zip(problem.wanted, found, strict=True):
        if gradient is not None and _is_nonzero(gradient):
            raise GradcheckError(
                "gradcheck: Expected all input grads to be undefined or zero when all output grads are "
                f"undefined or zero. The gradient of input {place} is up to {_largest(gradient):.3g}. Return "
                "None, or zeros, where no gradient arrives."
            )


def _pull_back_undefined(problem: Problem) -> Sequence[Tensor | None]:
    """Runs a backward in which no output has a gradient."""
    again = as_tuple(problem.func(*problem.inputs))
    outputs = [_UndefinedGrad.apply(output) for output in again if needs_grad(output)]
    cotangents = zero_cotangents(outputs)
    try:
        return grad(outputs, problem.wanted_inputs, cotangents, allow_unused=True)
    except Exception as error:
        raise GradcheckError(
            "gradcheck: Expected backward function to handle undefined output grads. Without a gradient of "
            f"any output it raised {type(error).__name__}: {error} Treat None as zeros in the formula, "
            "or leave set_materialize_grads on."
        ) from error


def _is_nonzero(tensor: Tensor) -> bool:
    return bool(np.asarray(tensor.array).any())


def _largest(tensor: Tensor) -> float:
    return float(np.abs(np.asarray(tensor.array)).max())
