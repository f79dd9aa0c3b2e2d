"""Fourier transforms, spectra and windows that are made of several ops."""

from . import spectra, windows

SUBJECTS = (spectra, windows)
