"""Comparison of Jacobians with finite differences: in full, or of one random projection of each.

The checks in full compare every entry. The fast ones run them to find the entry of a difference.
"""

from __future__ import annotations

import numpy as np

from oplib.errors import GradcheckError

from .backward import backward_jacobian, pull_back
from .comparison import Options, Pair, require_equal_jacobians
from .coordinates import Vector, count_coordinates, draw_directions, from_coordinates
from .forward import forward_jacobian, push_forward
from .problem import Problem


def check_jacobians(problem: Problem, options: Options, *, fast_mode: bool) -> None:
    """Compares the Jacobians that the options select.

    Raises:
        GradcheckError: one differs, or an output changes though no output requires grad.
    """
    if not problem.differentiable:
        (_project_constant if fast_mode else _check_constant)(problem, options)
        return
    if problem.surrogates:
        _check_modes(problem, options)
        return
    if options.check_backward_ad:
        (_project_backward if fast_mode else _check_backward)(problem, options)
    if options.check_forward_ad:
        (_project_forward if fast_mode else _check_forward)(problem, options)


def _check_modes(problem: Problem, options: Options) -> None:
    """Compares the Jacobians of both modes with each other: a surrogate gradient has no finite differences.

    Raises:
        GradcheckError: they differ, or one of them does not repeat.
    """
    backward = {}
    if options.check_backward_ad:
        backward = {output: backward_jacobian(problem, output, options) for output in problem.differentiable}
    if options.check_forward_ad:
        for index in problem.wanted:
            forward = forward_jacobian(problem, index, options)
            for output, jacobians in backward.items():
                pair = Pair(problem, output, index, forward=True)
                require_equal_jacobians(pair, jacobians[index], forward[output], options)


def _check_backward(problem: Problem, options: Options) -> None:
    """Raises GradcheckError where a Jacobian of the tape differs from finite differences."""
    numerical = {
        index: problem.numerical_jacobian(index, options.eps, problem.differentiable)
        for index in problem.wanted
    }
    for at, output in enumerate(problem.differentiable):
        analytical = backward_jacobian(problem, output, options)
        for index in problem.wanted:
            require_equal_jacobians(
                Pair(problem, output, index), numerical[index][at], analytical[index], options
            )


def _check_forward(problem: Problem, options: Options) -> None:
    """Raises GradcheckError where a Jacobian of forward mode differs from finite differences."""
    outputs = problem.inexact
    for index in problem.wanted:
        numerical = problem.numerical_jacobian(index, options.eps, outputs)
        analytical = forward_jacobian(problem, index, options)
        for at, output in enumerate(outputs):
            pair = Pair(problem, output, index, forward=True)
            require_equal_jacobians(pair, numerical[at], analytical[output], options)


def _check_constant(problem: Problem, options: Options) -> None:
    """Raises GradcheckError if an output changes with an input, though no output requires grad."""
    for index in problem.wanted:
        matrices = problem.numerical_jacobian(index, options.eps, problem.inexact)
        for output, matrix in zip(problem.inexact, matrices, strict=True):
            if (matrix != 0).any():
                raise GradcheckError(
                    "gradcheck: Numerical gradient for function expected to be zero: no output requires "
                    f"grad, and output {output} changes with input {index}. Record what the function does, "
                    "or give it inputs that do not require grad."
                )


def _project_backward(problem: Problem, options: Options) -> None:
    """Compares ``vᵀ J u`` for random ``u`` and ``v``, where ``J`` comes from the tape and from differences.

    Raises:
        GradcheckError: they differ. The full check raises it if it finds the entry.
    """
    directions = _input_directions(problem)
    along = {
        index: problem.derive_along(index, directions[index], options.eps, problem.differentiable)
        for index in problem.wanted
    }
    for at, output in enumerate(problem.differentiable):
        array = problem.outputs[output].array
        (cotangent,) = draw_directions(1, count_coordinates(array), seed=2 * output + 1)
        entering = from_coordinates(cotangent, array)
        gradients = pull_back(problem, output, entering, options)
        for index, gradient in zip(problem.wanted, gradients, strict=True):
            numerical = float(cotangent @ along[index][at])
            analytical = float(gradient @ directions[index])
            spread = np.abs(cotangent).sum() * np.abs(directions[index]).sum()
            # the tolerance atol counts once for each weight
            tolerance = options.atol * spread + options.rtol * abs(numerical)
            if not abs(numerical - analytical) <= tolerance:
                _check_backward(problem, options)
                raise _projection_error(Pair(problem, output, index), numerical, analytical)


def _project_forward(problem: Problem, options: Options) -> None:
    """Compares ``J u`` of forward mode with finite differences, for one random ``u`` per input.

    Raises:
        GradcheckError: they differ. The full check raises it if it finds the entry.
    """
    outputs = problem.inexact
    for index, direction in _input_directions(problem).items():
        along = problem.derive_along(index, direction, options.eps, outputs)
        tangents = push_forward(problem, index, direction, options)
        for output, numerical in zip(outputs, along, strict=True):
            gaps = np.abs(tangents[output] - numerical)
            allowed = options.atol * np.abs(direction).sum() + options.rtol * np.abs(numerical)
            if not (gaps <= allowed).all():
                _check_forward(problem, options)
                worst = int(np.argmax(gaps))
                pair = Pair(problem, output, index, forward=True)
                raise _projection_error(pair, float(numerical[worst]), float(tangents[output][worst]))


def _project_constant(problem: Problem, options: Options) -> None:
    """Raises GradcheckError if an output changes along one direction of an input."""
    for index, direction in _input_directions(problem).items():
        along = problem.derive_along(index, direction, options.eps, problem.inexact)
        if any(change.size and not np.abs(change).max() <= options.nondet_tol for change in along):
            _check_constant(problem, options)


def _input_directions(problem: Problem) -> dict[int, Vector]:
    return {
        index: draw_directions(1, count_coordinates(problem.inputs[index].array), seed=2 * index)[0]
        for index in problem.wanted
    }


def _projection_error(pair: Pair, numerical: float, analytical: float) -> GradcheckError:
    return GradcheckError(
        f"gradcheck: {pair.describe()}, in a random projection: numerical {numerical:.7g}, analytical "
        f"{analytical:.7g}. Each entry is within the tolerances, but their sum is not. "
        "Use fast_mode=False, or raise atol."
    )
