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

_OF_VALUES = (conversions, data_dependent, wider_signatures)
SUBJECTS = (*_OF_VALUES, parts, products, quantiles, sequences, shapes, statistics)
