"""Ops that compute each item from the items at the same position."""

from . import arithmetic, basic, bounds, complex, elementary, logic, polynomials, special  # noqa: A004

FAMILIES = (basic, elementary, arithmetic, special, polynomials, bounds, logic, complex)
