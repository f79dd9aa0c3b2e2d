"""Functions that are made of several ops."""

from . import (
    conversions,
    data_dependent,
    parts,
    products,
    quantiles,
    sequences,
    shapes,
    statistics,
    wider_signatures,
)

SUBJECTS = (
    conversions,
    data_dependent,
    wider_signatures,
    parts,
    products,
    quantiles,
    sequences,
    shapes,
    statistics,
)
