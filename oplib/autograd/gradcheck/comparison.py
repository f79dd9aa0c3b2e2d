"""Comparison of numerical and analytical derivatives, and the errors that describe differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oplib.errors import GradcheckError

from .coordinates import name_entry
from .diagnosis import diagnose
from .problem import Problem

Matrix = np.ndarray[Any, Any]

_SHOWN = 36
"""Matrices with at most this many entries are shown whole."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a check; see :func:`gradcheck`."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float = 0.0
    check_undefined_grad: bool = True
    check_grad_dtypes: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_forward_ad: bool = False
    check_backward_ad: bool = True


@dataclass(frozen=True, slots=True)
class Pair:
    """One output and one input, and the mode in which the derivative was computed."""

    problem: Problem
    output: int
    input: int
    forward: bool = False

    def describe(self) -> str:
        """Returns the name of the pair in messages."""
        mode = " computed with forward mode" if self.forward else ""
        return f"Jacobian{mode} mismatch for output {self.output} with respect to input {self.input}"

    def name_formula(self) -> str:
        """Returns the probable place of a mistake, for messages."""
        if self.problem.formula and not self.forward:
            return self.problem.formula
        node = self.problem.outputs[self.output].grad_fn
        ends = "" if node is None else f", of which {node.name()} is the last"
        rule = "jvp rules" if self.forward else "backward formulas"
        return f"the {rule} of the ops between them{ends}"

    def name_entries(self, row: int, column: int) -> str:
        """Returns the name of one entry of the matrix in messages."""
        source, result = self.problem.inputs[self.input].array, self.problem.outputs[self.output].array
        return f"By input entry {name_entry(row, source)}, output entry {name_entry(column, result)}"


def find_differing(numerical: Matrix, analytical: Matrix, atol: float, rtol: float) -> Matrix:
    """Returns a mask of the entries that differ by more than the tolerances."""
    with np.errstate(invalid="ignore"):
        close = np.isfinite(numerical) & (np.abs(analytical - numerical) <= atol + rtol * np.abs(numerical))
    return ~(close | (analytical == numerical))  # an infinity equals itself; a nan equals nothing


def require_equal_jacobians(pair: Pair, numerical: Matrix, analytical: Matrix, options: Options) -> None:
    """Raises GradcheckError if a Jacobian differs from finite differences.

    It names output, input, and both values of the entry that differs most.
    """
    differing = find_differing(numerical, analytical, options.atol, options.rtol)
    if not differing.any():
        return
    gaps = np.where(differing, np.nan_to_num(np.abs(analytical - numerical), nan=np.inf), -1.0)
    row, column = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    hint = diagnose(numerical, analytical, differing)
    advice = f"{hint} Correct" if hint else "Correct"
    error = GradcheckError(
        f"gradcheck: {pair.describe()}. {pair.name_entries(int(row), int(column))}: numerical "
        f"{numerical[row, column]:.7g}, analytical {analytical[row, column]:.7g}. {int(differing.sum())} of "
        f"{differing.size} entries differ by more than atol={options.atol:g} + rtol={options.rtol:g} times "
        f"the numerical value. {advice} {pair.name_formula()}, or check at a point where the "
        f"function is smooth.{_show(numerical, analytical)}"
    )
    error.jacobians = numerical, analytical
    raise error


def _show(numerical: Matrix, analytical: Matrix) -> str:
    if numerical.size > _SHOWN:
        return ""
    text = [np.array2string(matrix, precision=5, suppress_small=True) for matrix in (numerical, analytical)]
    return f"\nnumerical:\n{text[0]}\nanalytical:\n{text[1]}"
