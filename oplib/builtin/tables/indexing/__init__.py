"""Ops that read or write at indices."""

from . import gathering, scattering, selecting

FAMILIES = (selecting, gathering, scattering)
