"""A first diagnosis of a wrong gradient, from the Jacobian of finite differences and that of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]

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
