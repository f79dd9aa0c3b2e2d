"""Errors for arguments that are no tensors, in functions made of several ops: a TypeError, as of one op.

A single op binds its arguments to a schema, which refuses such a value. A function of several ops first reads
shape or dtype, and Python only reports that a list has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oplib.errors import ArgumentError, ArgumentTypeError, OplibError, describe, frame_error
from oplib.library.arguments.plain_conversions import is_foreign

_NO_TENSORS = (bool, int, float, complex, str, bytes, list, tuple, dict, set, type(None))

_DEEPEST = 8  # the depth of lists that is searched


def find_untensor(
    op: str, defaults: Mapping[str, Any], error: Exception, arguments: Mapping[str, Any]
) -> ArgumentError | None:
    """Returns the error about an argument that is no Tensor; None for any other failure.

    An ArgumentError gets the name and the arguments of the call.

    Args:
        op: the name that errors have.
        defaults: the defaults of its parameters. An argument that is the default is not the user's mistake.
        error: why the call failed.
        arguments: the arguments of the call, by name.
    """
    if isinstance(error, ArgumentError):
        frame_error(error, op, arguments.items())
    if isinstance(error, OplibError):
        return None
    if isinstance(error, AttributeError) and isinstance(error.obj, _NO_TENSORS):
        for name, value in arguments.items():
            if value is not defaults[name] and _holds(value, error.obj):
                return _explain(op, name, value, error.obj)
    for value in arguments.values():
        for member in value if isinstance(value, tuple) else (value,):
            if is_foreign(member):  # no op has reported it
                kind = type(member)
                return ArgumentTypeError(
                    f"{op}: expected a value of type 'Tensor' but found {describe(member)}, of type "
                    f"{kind.__module__}.{kind.__name__}. Convert it: oplib.tensor(t)."
                )
    return None


def _holds(value: Any, what: Any, depth: int = 0) -> bool:
    """Tells whether a value is an object, or holds it in lists, which may contain themselves."""
    if isinstance(value, (list, tuple)):
        return value is what or (
            depth < _DEEPEST and any(_holds(member, what, depth + 1) for member in value)
        )
    return value is what or (isinstance(value, str) and isinstance(what, str) and what in value)


def _explain(op: str, name: str, value: Any, what: Any) -> ArgumentTypeError:
    kind = "Tensor" if value is what else "Tensor[]"
    return ArgumentTypeError(
        f"{op}: argument '{name}' expected a value of type "
        f"'{kind}' but found {describe(value)}. {describe(what)} is no tensor, but of type "
        f"{type(what).__name__}. Pass oplib.tensor(...) instead."
    )
