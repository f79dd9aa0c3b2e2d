"""The fast check: it compares one random projection of each Jacobian instead of all entries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from oplib.errors import GradcheckError

from .backward import pull_back
from .comparison import Options, Pair
from .coordinates import Vector, count_coordinates
from .directions import draw_directions
from .forward import push_forward
from .problem import Problem

Check = Callable[[Problem, Options], None]


def check_backward_fast(problem: Problem, options: Options, *, slow: Check) -> None:
    """Compares ``vᵀ J u`` for random ``u`` and ``v``, where ``J`` comes from the tape and from differences.

    Raises:
        GradcheckError: they differ. The full check raises it if it finds the entry.
    """
    directions = _input_directions(problem)
    along = {
        place: problem.derive_along(place, directions[place], options.eps, problem.differentiable)
        for place in problem.wanted
    }
    for at, output in enumerate(problem.differentiable):
        cotangent = _output_direction(problem, output)
        gradients = pull_back(problem, output, cotangent, options)
        for place, gradient in zip(problem.wanted, gradients, strict=True):
            numerical = float(cotangent @ along[place][at])
            analytical = float(gradient @ directions[place])
            spread = np.abs(cotangent).sum() * np.abs(directions[place]).sum()
            if not _is_close(numerical, analytical, spread, options):
                slow(problem, options)
                raise _projection_error(Pair(problem, output, place), numerical, analytical)


def check_forward_fast(problem: Problem, options: Options, *, slow: Check) -> None:
    """Compares ``J u`` of forward mode with finite differences, for one random ``u`` per input.

    Raises:
        GradcheckError: they differ. The full check raises it if it finds the entry.
    """
    outputs = problem.inexact
    for place, direction in _input_directions(problem).items():
        along = problem.derive_along(place, direction, options.eps, outputs)
        tangents = push_forward(problem, place, direction, options)
        for output, numerical in zip(outputs, along, strict=True):
            gaps = np.abs(tangents[output] - numerical)
            allowed = options.atol * np.abs(direction).sum() + options.rtol * np.abs(numerical)
            if not (gaps <= allowed).all():
                slow(problem, options)
                worst = int(np.argmax(gaps))
                pair = Pair(problem, output, place, forward=True)
                raise _projection_error(pair, float(numerical[worst]), float(tangents[output][worst]))


def check_constant_fast(problem: Problem, options: Options, *, slow: Check) -> None:
    """Raises GradcheckError if an output changes along one direction of an input."""
    for place, direction in _input_directions(problem).items():
        along = problem.derive_along(place, direction, options.eps, problem.inexact)
        if any(change.size and not np.abs(change).max() <= options.nondet_tol for change in along):
            slow(problem, options)


def _input_directions(problem: Problem) -> dict[int, Vector]:
    return {
        place: draw_directions(1, count_coordinates(problem.inputs[place].array), seed=2 * place)[0]
        for place in problem.wanted
    }


def _output_direction(problem: Problem, output: int) -> Vector:
    return draw_directions(1, count_coordinates(problem.outputs[output].array), seed=2 * output + 1)[0]


def _is_close(numerical: float, analytical: float, spread: float, options: Options) -> bool:
    """Returns whether a projection is close. The tolerance ``atol`` counts once for each weight."""
    return bool(abs(numerical - analytical) <= options.atol * spread + options.rtol * abs(numerical))


def _projection_error(pair: Pair, numerical: float, analytical: float) -> GradcheckError:
    return GradcheckError(
        f"gradcheck: {pair.describe()}, in a random projection: numerical {numerical:.7g}, analytical "
        f"{analytical:.7g}. Each entry is within the tolerances, but their sum is not. "
        "Use fast_mode=False, or raise atol."
    )
