"""Fourier transforms, spectra and windows that are made of several ops."""
