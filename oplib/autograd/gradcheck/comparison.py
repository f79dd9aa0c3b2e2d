"""Comparison of numerical and analytical derivatives, the errors for differences, and the likely mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.errors import GradcheckError
from oplib.frozen import frozen

from .coordinates import name_entry
from .problem import Problem

Matrix = np.ndarray[Any, Any]

_SHOWN = 36
"""Matrices with at most this many entries are shown whole."""


@frozen
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


@frozen
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
    """Returns a mask of the entries that differ by more than the tolerances; a nan differs from all."""
    with np.errstate(invalid="ignore"):
        close = np.isfinite(numerical) & (np.abs(analytical - numerical) <= atol + rtol * np.abs(numerical))
    return ~(close | (analytical == numerical))  # an infinity is close to itself only


def require_equal_jacobians(pair: Pair, numerical: Matrix, analytical: Matrix, options: Options) -> None:
    """Raises GradcheckError if a Jacobian differs from finite differences.

    It names output, input, and both values of the entry that differs most.
    """
    differing = find_differing(numerical, analytical, options.atol, options.rtol)
    if not differing.any():
        return
    gaps = np.where(differing, np.nan_to_num(np.abs(analytical - numerical), nan=np.inf), -1.0)
    row, column = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    single = pair.problem.single
    if single and gaps[row, column] < 0.1 * np.abs(numerical[row, column]):
        advice = f"It captures {single}, where small differences are rounded. Make it an argument, or double."
    elif hint := diagnose(numerical, analytical, differing):
        advice = f"{hint} Correct {pair.name_formula()}."
    else:
        advice = f"Correct {pair.name_formula()}, or check at a point where the function is smooth."
    error = GradcheckError(
        f"gradcheck: {pair.describe()}. {pair.name_entries(int(row), int(column))}: numerical "
        f"{numerical[row, column]:.7g}, analytical {analytical[row, column]:.7g}. {int(differing.sum())} of "
        f"{differing.size} entries differ by more than atol={options.atol:g} + rtol={options.rtol:g} times "
        f"the numerical value. {advice}{_show(numerical, analytical)}"
    )
    error.jacobians = numerical, analytical
    raise error


def _show(numerical: Matrix, analytical: Matrix) -> str:
    if numerical.size > _SHOWN:
        return ""
    text = [np.array2string(matrix, precision=5, suppress_small=True) for matrix in (numerical, analytical)]
    return f"\nnumerical:\n{text[0]}\nanalytical:\n{text[1]}"


_CLOSE = 1e-3


def diagnose(numerical: Matrix, analytical: Matrix, differing: Matrix) -> str:
    """Returns the probable mistake in a formula, as one or two sentences; empty if nothing fits.

    Args:
        numerical: the Jacobian by finite differences, inputs by outputs.
        analytical: the Jacobian of the formula, of the same shape.
        differing: a mask of the entries that differ by more than the tolerances; one at least.
    """
    if not np.isfinite(numerical).all() or not np.isfinite(analytical).all():
        return "There is an infinity or a nan: check the point, or the formula at its edge."
    if analytical.any() and np.ptp(analytical, axis=1).max() == 0 < np.ptp(numerical, axis=1).max():
        return "The formula does not depend on g, the incoming gradient: multiply by it."
    small = _CLOSE * max(float(np.max(np.abs(numerical))), float(np.max(np.abs(analytical))))
    flat, silent = np.abs(numerical) <= small, np.abs(analytical) <= small
    if flat[differing].all():
        return (
            "Wherever the kernel is flat, the formula is not. If that is on purpose (straight-through), say "
            "so: register_autograd(..., surrogate=True)."
        )
    if silent[differing].all():
        return f"The formula gives zero at {int(differing.sum())} entries that are not: a term is absent."
    factor = "" if flat[differing].any() else _find_factor(numerical, analytical, differing)
    return factor or _find_order(numerical, analytical, small)


def _find_factor(numerical: Matrix, analytical: Matrix, differing: Matrix) -> str:
    """Looks for one factor between the entries that differ."""
    ratios = analytical[differing] / numerical[differing]
    factor = float(np.median(ratios))
    if np.max(np.abs(ratios - factor)) > 1e-2 * max(1.0, abs(factor)):
        return ""
    if abs(factor + 1) < 1e-2:
        return "The formula has the opposite sign."
    return f"The formula gives {factor:.3g} times the finite differences: a factor is missing."


def _find_order(numerical: Matrix, analytical: Matrix, small: float) -> str:
    """Looks for exchanged axes: the same numbers at other entries."""
    if numerical.shape[0] == numerical.shape[1] and np.allclose(analytical, numerical.T, atol=small):
        return "The formula gives the transposed Jacobian: two axes are exchanged."
    if np.allclose(np.sort(analytical, None), np.sort(numerical, None), atol=small):
        return "The formula gives the same numbers at other entries: an axis is transposed or rolled."
    return ""
