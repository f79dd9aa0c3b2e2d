"""What is raised where the value of something traced is needed."""

from __future__ import annotations

import jax

from oplib.errors import TracingError

CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""What JAX raises."""

VALUE_ERRORS = (TracingError, *CONCRETIZATION_ERRORS)
"""What oplib or JAX raises."""
