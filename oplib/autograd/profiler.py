"""Torch's path ``autograd.profiler``. ``oplib.visual.profile`` measures the ops of a step.

Example:
    >>> import oplib
    >>> with oplib.autograd.profiler.record_function("loss"):
    ...     y = oplib.ones(2).sum()
"""

import typing as _typing

from jax.profiler import TraceAnnotation as record_function  # noqa: N813  torch's name

from oplib.torch_names import make_getattr as _make_getattr

from .parity import refuse_profiling as profile

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["profile", "record_function"]
