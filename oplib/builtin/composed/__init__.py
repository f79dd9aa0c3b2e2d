"""Functions that are made of several ops."""

from . import conversions, data_dependent, forms, parts, products, quantiles, sequences, shapes, statistics

SUBJECTS = (conversions, data_dependent, forms, parts, products, quantiles, sequences, shapes, statistics)
