"""The line of the user's code at which a registration was made."""

from __future__ import annotations

import sys
from types import FrameType
from typing import NamedTuple

from oplib.tracebacks import entry_point, is_inside

_PACKAGE = __name__.partition(".")[0]
_FLOOR = ".".join(__name__.split(".")[:2])
_OTHERS = ("contextlib", entry_point.__module__)  # their frames stand between those of the floor


class Site(NamedTuple):
    """A line of code; printed as ``file:line``.

    Attributes:
        file: the path of the file.
        line: the number of the line.
        is_inside: the line belongs to this package.
        stacklevel: the number of frames from the caller of :func:`find_site` up to this line, as
            ``warnings.warn`` counts them.
    """

    file: str
    line: int
    is_inside: bool
    stacklevel: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def find_site() -> Site:
    """Returns the innermost line outside the library floor, which is the line that registers."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame.f_back is not None and _is_floor(frame):
        frame = frame.f_back
        level += 1
    module = str(frame.f_globals.get("__name__", ""))
    return Site(frame.f_code.co_filename, frame.f_lineno, module.partition(".")[0] == _PACKAGE, level)


def find_line(error: BaseException) -> str:
    """Returns the last line of an error's traceback outside this package and JAX, as ``file:line``."""
    found = "?"
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_inside[file]:
            found = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return found


def _is_floor(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module == _FLOOR or module.startswith(f"{_FLOOR}.") or module in _OTHERS
