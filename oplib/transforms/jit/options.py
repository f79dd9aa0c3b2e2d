"""Options of ops that a program is compiled for.

A float argument of a user's function is an operand. A kernel reads most float options as numbers, so they are
compiled in where the compiled function is an op itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from oplib.library.objects.namespace import OpOverloadPacket
from oplib.library.objects.overload import OpOverload
from oplib.transforms.tracing.paths import name_package

_NUMBERS = ("float", "complex")


def list_number_options(function: Callable[..., Any], signature: inspect.Signature) -> list[str]:
    """Returns the names of the arguments that an op, or another function of oplib, reads as numbers.

    The schema of a registered op tells them. A function of oplib reads those as numbers that have a float as
    default.

    Args:
        function: what is compiled; most often no op.
        signature: of the function.
    """
    called: Any = function
    while isinstance(called, partial):
        called = called.func
    op = _find_overload(called)
    if op is not None:
        record = op.record
        options = [one for one in record.schema.arguments if str(one.type).removesuffix("?") in _NUMBERS]
        names = {one.name for one in options} - record.operand
    elif name_package(called) == "oplib":
        names = {one.name for one in signature.parameters.values() if isinstance(one.default, float)}
    else:
        return []
    return [name for name in signature.parameters if name in names]


def _find_overload(called: Any) -> OpOverload | None:
    """Returns the overload that a call reaches; None where the arguments decide, and for no op."""
    if isinstance(called, OpOverloadPacket):
        overloads = called.overloads()
        return getattr(called, overloads[0]) if len(overloads) == 1 else None
    found = getattr(called, "_opoverload", called)  # the op that custom_op returns
    return found if isinstance(found, OpOverload) else None
