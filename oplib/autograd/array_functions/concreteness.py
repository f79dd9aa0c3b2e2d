"""The errors that mean: the value of a traced array is needed."""

import jax

from oplib.errors import TracingError

CONCRETIZATION_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)
"""Errors of JAX."""

VALUE_ERRORS = (TracingError, *CONCRETIZATION_ERRORS)
"""Errors of oplib or JAX."""
