"""Ops that read or write at indices."""

from . import gathering, indexing, scattering

FAMILIES = (indexing, gathering, scattering)
