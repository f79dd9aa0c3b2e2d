"""Errors for arguments that are no tensors, in functions made of several ops: a TypeError, as of one op.

A single op binds its arguments to a schema, which refuses such a value. A function of several ops first reads
shape or dtype, and Python only reports that a list has none.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from oplib.errors import ArgumentTypeError, OplibError, describe
from oplib.library.arguments.plain_conversions import is_foreign
from oplib.tracebacks import hide_frames

Function = Callable[..., Any]
_NO_TENSORS = (bool, int, float, complex, str, bytes, list, tuple, dict, set, type(None))


def refuse_untensors(function: Function) -> Function:
    """Wraps a function so that its error names the argument that is no tensor.

    Args:
        function: a function made of several ops. Calls that succeed are unchanged.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            better = _find_untensor(function, args, kwargs, error)
            if better is not None:
                raise better from None
            hide_frames(error)
            raise

    return guarded


def _find_untensor(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> ArgumentTypeError | None:
    """Returns the error about an argument that is no Tensor; None for any other failure."""
    if not isinstance(error, (AttributeError, TypeError)) or isinstance(error, OplibError):
        return None
    if isinstance(error, AttributeError) and isinstance(error.obj, _NO_TENSORS):
        for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
            if _holds(value, error.obj):
                return _explain(function, name, value, error.obj)
    for value in (*args, *kwargs.values()):
        if is_foreign(value):  # no op has reported it
            kind = type(value)
            return ArgumentTypeError(
                f"{_name(function)}: expected a value of type 'Tensor' but found {describe(value)}, of type "
                f"{kind.__module__}.{kind.__name__}. Convert it: oplib.tensor(t)."
            )
    return None


def _name(function: Function) -> str:
    return function.__name__.replace("linalg_", "linalg.")


def _holds(value: Any, what: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return value is what or any(_holds(one, what) for one in value)
    return value is what or (isinstance(value, str) and isinstance(what, str) and what in value)


def _explain(function: Function, name: str, value: Any, what: Any) -> ArgumentTypeError:
    kind = "Tensor" if value is what else "Tensor[]"
    return ArgumentTypeError(
        f"{_name(function)}: argument '{name}' expected a value of type "
        f"'{kind}' but found {describe(value)}. {describe(what)} is no tensor, but of type "
        f"{type(what).__name__}. Pass oplib.tensor(...) instead."
    )
