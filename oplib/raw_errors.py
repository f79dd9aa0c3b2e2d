"""Errors of Python, numpy or JAX about the arguments of a call, as errors of oplib.

A call binds and checks its arguments, and its errors say what does not fit. A value that no check knows makes
Python, numpy or JAX raise. Such an error does not say which call it is about.
"""

from __future__ import annotations

import re
from types import FrameType

from .errors import (
    AllocationError,
    ArgumentError,
    ArgumentOverflowError,
    ArgumentTypeError,
    ArgumentValueError,
    DimensionError,
    UnsupportedArgumentError,
    describe,
)

# The first class that fits decides. Other errors, such as those of tracing or of a device, stay as they are.
_KINDS: tuple[tuple[type[Exception], type[ArgumentError | AllocationError]], ...] = (
    (MemoryError, AllocationError),  # of numpy; XLA's own end the process, and sizes are checked before it
    (NotImplementedError, UnsupportedArgumentError),
    (OverflowError, ArgumentOverflowError),
    (IndexError, DimensionError),
    (TypeError, ArgumentTypeError),
    (AttributeError, ArgumentTypeError),
    (ValueError, ArgumentValueError),
    (KeyError, ArgumentValueError),
    (ZeroDivisionError, ArgumentValueError),
)
_ADVICE: dict[type[Exception], str] = {AllocationError: "Check the sizes, or compute it in parts."}
_OTHER_ADVICE = (
    "Pass values of the kinds that its docstring lists; if these are, it is a defect of oplib: report it."
)
_PACKAGES = frozenset({"builtins", "numpy"})
_STATUS = re.compile("[A-Z_]+: ")  # of XLA; the text may hold an error of the user's host kernel
_LONGEST = 300


def explain_raw(
    error: Exception, frame: FrameType, name: str | None = None
) -> ArgumentError | AllocationError | None:
    """Returns an error of oplib that says which call a raw one is about; None for an error of another kind.

    Args:
        error: raised by Python, numpy or JAX, not by the user's code.
        frame: of the call, with its arguments.
        name: of the called function; by default that of the frame.
    """
    if type(error).__module__.partition(".")[0] not in _PACKAGES:
        return None
    kind = next((own for raw, own in _KINDS if isinstance(error, raw)), None)
    if kind is None:
        return None
    text = str(error).partition("\n")[0]
    if _STATUS.match(text):
        return None
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    name = name or frame.f_code.co_name
    advice = _ADVICE.get(kind, _OTHER_ADVICE)
    return kind(
        f"{name}: cannot use these arguments. Got {_describe_arguments(frame) or 'none'}; "
        f"{type(error).__name__}: {shown.removesuffix('.')}. {advice}"
    )


def _describe_arguments(frame: FrameType) -> str:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    names = [*code.co_varnames[:count]]
    names += code.co_varnames[count : count + bool(code.co_flags & 4) + bool(code.co_flags & 8)]
    found = frame.f_locals
    return ", ".join(f"{name} {describe(found[name])}" for name in names if name in found)
