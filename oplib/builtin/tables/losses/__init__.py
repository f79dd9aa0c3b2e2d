"""The loss functions."""

from . import alignment, labels, likelihood, margins, regression_and_classification

FAMILIES = (regression_and_classification, margins, labels, likelihood, alignment)
