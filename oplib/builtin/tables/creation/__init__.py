"""Ops that create new items: constants and random numbers."""

from . import constants, random

FAMILIES = (constants, random)
