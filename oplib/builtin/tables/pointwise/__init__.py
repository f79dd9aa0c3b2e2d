"""Ops that compute each item from the items at the same position."""

from . import arithmetic, basic, bounds, compare, complex, elementary, logic, special  # noqa: A004

FAMILIES = (basic, elementary, arithmetic, special, bounds, compare, logic, complex)
