"""Torch's path ``autograd.profiler``. ``oplib.visual.profile`` measures the ops of a step.

Example:
    >>> import oplib
    >>> with oplib.autograd.profiler.record_function("loss"):
    ...     y = oplib.ones(2).sum()
"""

from jax.profiler import TraceAnnotation as record_function  # noqa: N813  torch's name

from .parity import refuse_profiling as profile

__all__ = ["profile", "record_function"]
