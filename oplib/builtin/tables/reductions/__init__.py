"""Ops along dimensions: reductions, scans, order, statistics."""

from . import basic, moments, order, quantiles, scan, searching, statistics

FAMILIES = (basic, moments, scan, order, quantiles, searching, statistics)
