"""Ops along dimensions: reductions, scans, order, statistics."""

from . import basic, moments, order, quantiles, scan, searching, sequences, statistics

FAMILIES = (basic, moments, scan, order, quantiles, searching, sequences, statistics)
