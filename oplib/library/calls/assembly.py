"""Builds the functions that the calls of an overload run."""

from __future__ import annotations

from oplib.library.objects.overload import OpOverload
from oplib.library.records.record import Function
from oplib.tracebacks import entry_point

from .dispatch import Dispatcher
from .fast_path import make_fast_call


def build_call(overload: OpOverload) -> Function:
    """Returns the function of ``overload.call``, and assigns those of its other calls."""
    dispatcher = Dispatcher(overload)
    overload.arrays = entry_point(lambda *args, **kwargs: dispatcher.call(args, kwargs, arrays_wanted=True))
    overload.functional = entry_point(lambda *args, **kwargs: dispatcher.call_functional(args, kwargs))
    overload.take_dispatcher(dispatcher)
    return make_fast_call(dispatcher)
