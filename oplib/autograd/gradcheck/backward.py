"""Derivatives by the tape: output row by output row. Each is computed twice, to see that they repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.autograd.engine.backward_and_grad import grad
from oplib.autograd.function import Function
from oplib.errors import GradcheckError, describe
from oplib.tensor import Tensor, box, needs_grad
from oplib.tensor.shapes.filling import fill_like

from .comparison import Matrix, Options
from .coordinates import Vector, count_coordinates, from_rows, read_gradient, stack_rows
from .problem import Problem, as_tuple


def pull_back(problem: Problem, output: int, cotangent: Any, options: Options) -> list[Vector]:
    """Returns the gradient of one output with respect to each wanted input, computed twice.

    The tape's gradient for a complex entry ``x + iy`` is ``dL/dx + i dL/dy``, and the cotangent follows the
    same rule. In real coordinates the gradient is the ordinary product with the Jacobian.

    Raises:
        GradcheckError: the two computations differ by more than ``nondet_tol``, or a gradient does not have
            the shape or dtype of its input.
    """
    result: Tensor = problem.outputs[output]
    boxed = box(cotangent)

    def compute() -> list[Vector]:
        gradients = grad(result, problem.wanted_inputs, boxed, retain_graph=True, allow_unused=True)
        return [
            _read_gradient(gradient, problem, index, check_dtype=options.check_grad_dtypes)
            for index, gradient in zip(problem.wanted, gradients, strict=True)
        ]

    first, second = compute(), compute()
    for index, left, other in zip(problem.wanted, first, second, strict=True):
        _require_repeated(left, other, options.nondet_tol, f"output {output} with respect to input {index}")
    return first


def backward_jacobian(problem: Problem, output: int, options: Options) -> dict[int, Matrix]:
    """Returns for each wanted input the matrix of derivatives of one output: a row for each input entry."""
    result = problem.outputs[output].array
    cotangents = from_rows(np.eye(count_coordinates(result)), result)
    rows = [pull_back(problem, output, cotangent, options) for cotangent in cotangents]
    return {
        index: stack_rows([row[at] for row in rows], problem.inputs[index].array).T
        for at, index in enumerate(problem.wanted)
    }


def _read_gradient(gradient: Tensor | None, problem: Problem, index: int, *, check_dtype: bool) -> Vector:
    due = problem.inputs[index].array
    if gradient is not None:
        check_gradient_kind(gradient.array, due, f"input {index}", check_dtype=check_dtype)
    return read_gradient(gradient, due)


def check_gradient_kind(gradient: Any, due: Any, what: str, *, check_dtype: bool) -> None:
    """Raises GradcheckError if a gradient or tangent does not have the shape and dtype of its value."""
    if gradient.shape != due.shape:
        raise GradcheckError(
            f"gradcheck: the analytical gradient of {what} has incorrect size. Got {describe(gradient)} for "
            f"{describe(due)}. Return a gradient of the input's shape."
        )
    if check_dtype and gradient.dtype != due.dtype:
        raise GradcheckError(
            f"gradcheck: the gradient of {what} has a dtype mismatch. Got {describe(gradient)} for "
            f"{describe(due)}. Return it in this dtype, or leave check_grad_dtypes off."
        )
    if (gradient.dtype.kind == "c") != (due.dtype.kind == "c"):
        raise GradcheckError(
            f"gradcheck: the gradient of {what} is complex where it is to be real, or real where it is to be "
            f"complex. Got {describe(gradient)} for {describe(due)}. Convert it in the formula."
        )


def _require_repeated(expected: Vector, other: Vector, tolerance: float, what: str) -> None:
    differing = (expected != other) & ~(np.isnan(expected) & np.isnan(other))
    gaps = np.abs(expected[differing] - other[differing])
    if gaps.size and not gaps.max() <= tolerance:
        raise GradcheckError(
            f"gradcheck: Backward is not reentrant: computed twice with the same input and cotangent, the "
            f"gradient of {what} differs by {gaps.max():.3g}. The tolerance for nondeterminism is "
            f"{tolerance:g}. Make the formula deterministic, or raise nondet_tol."
        )


def zeros_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns zeros for each tensor, as gradients or as tangents."""
    return [box(fill_like(tensor._storage.array, 0)) for tensor in tensors]


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
    gradients = grad(
        outputs, problem.wanted_inputs, zeros_like(outputs), retain_graph=True, allow_unused=True
    )
    for index, gradient in zip(problem.wanted, gradients, strict=True):
        if gradient is None:
            continue
        check_gradient_kind(gradient.array, problem.inputs[index].array, f"input {index}", check_dtype=True)
        if _is_nonzero(gradient):
            raise GradcheckError(
                "gradcheck: backward not multiplied by grad_output: the gradients of all outputs are zero, "
                f"and that of input {index} is not. Its largest entry is {_largest(gradient):.3g}. Multiply "
                "every term of the formula by the incoming gradient."
            )


def check_undefined_gradients(problem: Problem) -> None:
    """Checks that the backward accepts an absent gradient of any output.

    Computing a Jacobian leaves out the gradients of all outputs but one, so this case is not tried again.

    Raises:
        GradcheckError: the backward raises, or all gradients are absent and it returns nonzero ones.
    """
    gradients = _pull_back_undefined(problem)
    for index, gradient in zip(problem.wanted, gradients, strict=True):
        if gradient is not None and _is_nonzero(gradient):
            raise GradcheckError(
                "gradcheck: Expected all input grads to be undefined or zero when all output grads are "
                f"undefined or zero. The gradient of input {index} is up to {_largest(gradient):.3g}. Return "
                "None, or zeros, where no gradient arrives."
            )


def _pull_back_undefined(problem: Problem) -> Sequence[Tensor | None]:
    """Runs a backward in which no output has a gradient."""
    again = as_tuple(problem.func(*problem.inputs))
    outputs = [_UndefinedGrad.apply(output) for output in again if needs_grad(output)]
    cotangents = zeros_like(outputs)
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
