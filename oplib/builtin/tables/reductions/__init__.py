"""Ops along dimensions: reductions, scans, order, statistics."""

from . import basic, moments, order, scan, searching, statistics

FAMILIES = (basic, moments, scan, order, searching, statistics)
