"""Functions that are made of several ops."""

from . import data_dependent, forms, parts, products, quantiles, sequences, shapes, statistics

SUBJECTS = (data_dependent, forms, parts, products, quantiles, sequences, shapes, statistics)
