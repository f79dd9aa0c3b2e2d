"""Quotients of polynomials that approximate erfcx, with published coefficients.

W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969). JAX's
erfcx is 0 from 9.4 on in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .promotion import strong

Quotient = tuple[Sequence[float], Sequence[float]]


def divide_polynomials(quotient: Quotient, x: Any) -> Any:
    """Evaluates the quotient of two polynomials at x; the highest powers come first."""
    above, below = (sum_powers(numbers, x) for numbers in quotient)
    return above / below


def sum_powers(numbers: Sequence[float], x: Any) -> Any:
    """Evaluates a polynomial at x; the highest powers come first."""
    total = strong(numbers[0], x)
    for number in numbers[1:]:
        total = total * x + number
    return total


MIDDLE: Quotient = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1),
        *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3),
        1.23033935479799725e3,
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2),
        *(1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3),
        1.23033935480374942e3,
    ),
)
"""erfcx(x), from 0.47 to 4."""

FAR: Quotient = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1),
        *(1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1),
        *(6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)
"""(1 / sqrt(pi) - x * erfcx(x)) * x ** 2 beyond 4, of 1 / x ** 2."""
