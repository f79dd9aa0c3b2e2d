"""Fourier transforms, spectra and windows that are made of several ops."""

from . import fourier, spectra, windows

SUBJECTS = (fourier, spectra, windows)
