"""Quotients of polynomials that approximate special functions, with published coefficients.

For erfcx: W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969). For
the inverse of the normal distribution: S. L. Moshier, Cephes mathematical library, ``ndtri``.
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
    found = strong(numbers[0], x)
    for number in numbers[1:]:
        found = found * x + strong(number, x)
    return found


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

CENTRE: Quotient = (
    (
        *(-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1),
        *(1.39312609387279679503e1, -1.23916583867381258016),
    ),
    (
        *(1.0, 1.95448858338141759834, 4.67627912898881538453, 8.63602421390890590575e1),
        *(-2.25462687854119370527e2, 2.00260212380060660359e2, -8.20372256168333339912e1),
        *(1.59056225126211695515e1, -1.18331621121330003142),
    ),
)
"""ndtri(x + 1 / 2) / sqrt(2 * pi) is x + x ** 3 times this quotient, a function of x ** 2."""

NEAR_TAIL: Quotient = (
    (
        *(4.05544892305962419923, 3.15251094599893866154e1, 5.71628192246421288162e1),
        *(4.40805073893200834700e1, 1.46849561928858024014e1, 2.18663306850790267539),
        *(-1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4),
    ),
    (
        *(1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1),
        *(1.50425385692907503408e1, 2.50464946208309415979, -1.42182922854787788574e-1),
        *(-3.80806407691578277194e-2, -9.33259480895457427372e-4),
    ),
)
"""A function of 1 / x with x = sqrt(-2 * log(p)) below 8: the value of (x - log(x) / x + ndtri(p)) * x."""

FAR_TAIL: Quotient = (
    (
        *(3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415),
        *(1.33303460815807542389, 2.01485389549179081538e-1, 1.23716634817820021358e-2),
        *(3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9),
    ),
    (
        *(1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271),
        *(2.16236993594496635890e-1, 1.34204006088543189037e-2, 3.28014464682127739104e-4),
        *(2.89247864745380683936e-6, 6.79019408009981274425e-9),
    ),
)
"""The same function for x from 8 on."""
