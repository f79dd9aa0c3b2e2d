"""Failed reads: values of traced arrays that Python code has asked for, and that do not exist yet.

Such a read raises. If the code catches the error and goes on, the trace would have taken another way than the
uncompiled run takes. So a trace that has ended well is refused if a read failed inside.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from oplib.errors import TracingError
from oplib.modes import modes
from oplib.tracebacks import find_frame_outside, is_inside

E = TypeVar("E", bound=Exception)
R = TypeVar("R")


class FailedRead(NamedTuple):
    """A read that has failed.

    Attributes:
        number: the ``id`` of the error, which would keep frames alive.
        text: which read it was, and where.
    """

    number: int
    text: str


def note_read(error: E) -> E:
    """Notes where a read of a traced value fails, and returns the error, which the caller raises.

    The error says the place behind what it got.
    """
    frame, _ = find_frame_outside(is_inside)
    file, line = frame.f_code.co_filename, frame.f_lineno
    place = f" at {file}:{line}: `{linecache.getline(file, line).strip()}`"
    what, _, rest = str(error).partition(". Got ")
    if rest:
        error.args = (f"{what}. Got {rest.replace('. ', f'{place}. ', 1)}",)
    if (reads := modes.state.failed_reads) is not None:
        reads.append(FailedRead(id(error), what.partition(". ")[0] + place))
    return error


def refuse_caught_reads(subject: str, function: Callable[..., R], *args: Any) -> R:
    """Traces a function: calls it, and refuses the trace if it caught the error of a failed read.

    Args:
        subject: of the error.
        function: runs code of the user on traced values.
        *args: its arguments.

    Raises:
        TracingError: a read failed inside, though the function returned.
    """
    state = modes.state
    outer, reads = state.failed_reads, list[FailedRead]()
    try:
        state.failed_reads = reads
        result = function(*args)
    finally:
        state.failed_reads = outer
        if outer is not None:  # who catches the error of this trace goes another way too
            outer += reads
    if reads:
        raise TracingError(
            f"{subject}: the code caught the error of a read while it was traced, and would do something "
            f"else without the trace. Got {reads[0].text}. Choose by oplib.where or oplib.cond, or ask "
            "oplib.compiler.is_compiling() before the read."
        )
    return result


def forget_read(error: BaseException | None) -> None:
    """Forgets the read that an error comes from. Its handler gets the same result in another way."""
    reads = modes.state.failed_reads
    while reads and error is not None:
        if reads[-1].number == id(error):
            reads.pop()
            return
        error = error.__context__
