"""Functions that are made of several ops."""

from . import (
    conversions,
    data_dependent,
    forms,
    histograms,
    parts,
    products,
    quantiles,
    sequences,
    shapes,
    slopes,
    statistics,
)

SUBJECTS = (
    conversions,
    data_dependent,
    forms,
    histograms,
    parts,
    products,
    quantiles,
    sequences,
    shapes,
    slopes,
    statistics,
)
