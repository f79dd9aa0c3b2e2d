"""The locations of nodes: the line of the user's code that recorded each, stored cheaply.

A location is a code object and the offset of an instruction in it, so no frame or value stays alive. Its line
and text are made only when it is shown.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from oplib.autograd.mode_decorator import Flag
from oplib.modes import modes
from oplib.tracebacks import is_inside

Location = tuple[CodeType, int]
"""A code object, and the offset of an instruction in it."""

_ENGINE = str(Path(__file__).resolve().parents[1] / "engine" / "flow.py")


class record_locations(Flag):  # noqa: N801  users call it like a function
    """Sets whether nodes recorded in this thread store the line of the user's code that recorded them.

    They do by default, and errors of a backward pass then name the line of the forward call. It works at
    once, or for a ``with`` block. ``oplib.config.record_lines = False`` turns it off in all threads.

    Args:
        mode: whether nodes store the line.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import node_location, record_locations
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> node_location((x * 2).grad_fn)[0].co_name
        '<module>'
        >>> with record_locations(False):
        ...     y = x * 2
        >>> node_location(y.grad_fn) is None
        True
    """

    name = "locations"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


def are_locations_recorded() -> bool:
    """Returns whether nodes recorded in this thread store their location."""
    return modes.locations


def node_location(node: Any) -> tuple[CodeType, int] | None:
    """Returns the code object and line that recorded a node; None if they were not stored.

    Args:
        node: any node of a graph.
    """
    location: Location | None = getattr(node, "_location", None)
    return None if location is None else locate_line(location)


def locate_line(location: Location) -> tuple[CodeType, int]:
    """Returns the code object and the line of a location."""
    code, offset = location
    lines = (line for start, end, line in code.co_lines() if start <= offset < end)
    return code, next(lines, None) or code.co_firstlineno


def note_location(node: Any, run: Any) -> None:
    """Stores the innermost frame outside of oplib as the location of a node. Every recorded call pays for it.

    Args:
        node: a new node.
        run: the BackwardRun of the engine, or None. The location of its node is also that of nodes that it
            makes, unless user code is between them.
    """
    engine = None if run is None or run.node is None else _ENGINE
    frame: FrameType | None = sys._getframe(2)  # the caller is of oplib
    while frame is not None:
        code = frame.f_code
        if not is_inside[code.co_filename]:
            node._location = (code, frame.f_lasti)
            return
        if engine is not None and code.co_filename == engine:
            node._location = run.node._location  # pyright: ignore[reportOptionalMemberAccess]  tested above
            return
        frame = frame.f_back


def find_frame() -> FrameType | None:
    """Returns the innermost frame outside of oplib."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def show_location(code: CodeType, line: int) -> str:
    """Returns the text of a location for errors: file and line, function, and the source line."""
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_name}" + (f": {text}" if text else "")
