"""Fourier transforms, spectra and windows that are made of several ops."""

from . import spectra, window_functions

SUBJECTS = (spectra, window_functions)
