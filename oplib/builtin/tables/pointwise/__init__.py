"""Ops that compute each item from the items at the same position."""

from . import arithmetic, basic, bounds, compare, complex, elementary, logic, polynomials, special  # noqa: A004

FAMILIES = (basic, elementary, arithmetic, special, polynomials, bounds, compare, logic, complex)
