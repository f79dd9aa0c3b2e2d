"""The loss functions."""

from . import alignment, basic, labels, likelihood, margins

FAMILIES = (basic, margins, labels, likelihood, alignment)
