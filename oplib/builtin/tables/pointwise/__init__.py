"""Ops that compute each item from the items at the same position."""

from . import arithmetic, arithmetic_operators, bounds, complex, elementary, logic, polynomials, special  # noqa: A004

FAMILIES = (arithmetic_operators, elementary, arithmetic, special, polynomials, bounds, logic, complex)
