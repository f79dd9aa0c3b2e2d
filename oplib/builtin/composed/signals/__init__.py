"""Fourier transforms, spectra and windows made of several ops."""
