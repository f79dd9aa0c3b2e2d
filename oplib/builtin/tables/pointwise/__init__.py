"""Ops that compute each item from the items at the same position."""

from . import (
    arithmetic_operators,
    bounds,
    complex,  # noqa: A004
    elementary,
    further_arithmetic,
    logic,
    polynomials,
    special,
)

FAMILIES = (
    arithmetic_operators,
    elementary,
    further_arithmetic,
    special,
    polynomials,
    bounds,
    logic,
    complex,
)
