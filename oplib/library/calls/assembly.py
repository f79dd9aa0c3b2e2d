"""Putting together what an overload's calls run."""

from __future__ import annotations

from oplib.library.objects.overload import OpOverload
from oplib.library.records.record import Function
from oplib.tracebacks import entry_point

from .dispatch import Dispatcher
from .fast_path import make_fast_call


def build_call(overload: OpOverload) -> Function:
    """Returns the function that does the whole work of a call, after assigning its siblings."""
    dispatcher = Dispatcher(overload)
    overload.arrays = entry_point(lambda *args, **kwargs: dispatcher.call(args, kwargs, arrays_wanted=True))
    overload.functional = entry_point(lambda *args, **kwargs: dispatcher.call_functional(args, kwargs))
    overload.take_dispatcher(dispatcher)
    return make_fast_call(dispatcher)
