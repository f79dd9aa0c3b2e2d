"""The line of the user's code at which a registration was made."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from oplib.tracebacks import FilesIn, entry_point, find_frame_outside, is_inside, is_own

_OTHERS = (contextlib.__file__, entry_point.__code__.co_filename)  # their frames stand between the floor's
_CELL = re.compile(r"(.*[/\\]ipykernel_\d+[/\\].*|<(ipython-|python-)?(input-.*|stdin.*)>)")
_is_floor = FilesIn((f"{Path(__file__).parents[1]}{os.sep}", *_OTHERS))


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
    frame, level = find_frame_outside(_is_floor)
    file = frame.f_code.co_filename
    return Site(file, frame.f_lineno, is_own[file], level)


def find_definition(function: Any) -> str:
    """Returns the line at which a function begins, as ``file:line``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "?" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def find_doc(function: Any) -> str | None:
    """Returns the docstring of a function; of a ``functools.partial`` that of its function."""
    inner = inspect.unwrap(function)
    return inner.func.__doc__ if isinstance(inner, functools.partial) else function.__doc__


def find_origin(function: Any) -> tuple[str, str]:
    """Returns the file in which a function is defined, and its qualified name.

    All cells of one notebook count as one file, and so does all input of one interactive Python.
    """
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    file = "" if code is None else code.co_filename
    return _CELL.sub("<cells>", file), name


def find_line(error: BaseException) -> str:
    """Returns the last line of an error's traceback outside this package and JAX, as ``file:line``."""
    line = "?"
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_inside[file]:
            line = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return line
