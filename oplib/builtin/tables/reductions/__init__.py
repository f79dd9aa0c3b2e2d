"""Ops along dimensions: reductions, scans, order, statistics."""
