"""Ops along dimensions: reductions, scans, order, statistics."""

from . import moments, order, quantiles, scan, searching, sequences, statistics, sums_and_extrema

FAMILIES = (sums_and_extrema, moments, scan, order, quantiles, searching, sequences, statistics)
