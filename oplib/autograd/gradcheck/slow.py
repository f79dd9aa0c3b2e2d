"""The full check: it compares every entry of every Jacobian."""

from __future__ import annotations

from oplib.errors import GradcheckError

from .backward import backward_jacobian
from .comparison import Options, Pair, require_equal_jacobians
from .forward import forward_jacobian
from .problem import Problem


def check_backward_slow(problem: Problem, options: Options) -> None:
    """Raises GradcheckError where a Jacobian of the tape differs from finite differences."""
    numerical = {
        place: problem.numerical_jacobian(place, options.eps, problem.differentiable)
        for place in problem.wanted
    }
    for at, output in enumerate(problem.differentiable):
        analytical = backward_jacobian(problem, output, options)
        for place in problem.wanted:
            require_equal_jacobians(
                Pair(problem, output, place), numerical[place][at], analytical[place], options
            )


def check_forward_slow(problem: Problem, options: Options) -> None:
    """Raises GradcheckError where a Jacobian of forward mode differs from finite differences."""
    outputs = problem.inexact
    for place in problem.wanted:
        numerical = problem.numerical_jacobian(place, options.eps, outputs)
        analytical = forward_jacobian(problem, place, options)
        for at, output in enumerate(outputs):
            pair = Pair(problem, output, place, forward=True)
            require_equal_jacobians(pair, numerical[at], analytical[output], options)


def check_constant_slow(problem: Problem, options: Options) -> None:
    """Raises GradcheckError if an output changes with an input, though no output requires grad."""
    for place in problem.wanted:
        matrices = problem.numerical_jacobian(place, options.eps, problem.inexact)
        for output, matrix in zip(problem.inexact, matrices, strict=True):
            if (matrix != 0).any():
                raise GradcheckError(
                    "gradcheck: Numerical gradient for function expected to be zero: no output requires "
                    f"grad, and output {output} changes with input {place}. Record what the function does, "
                    "or give it inputs that do not require grad."
                )
