"""The locations of nodes: the line of the user's code that recorded each, stored cheaply.

A location is a code object and a line number, so no frame or value stays alive. Its text is made only for an
error.
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

_ENGINE = str(Path(__file__).resolve().parents[1] / "engine" / "run.py")


class record_locations(Flag):  # noqa: N801  users call it like a function
    """Makes each node recorded in this thread store the line of the user's code that recorded it.

    Errors of a backward pass then name the line of the forward call. The cost is about one attribute of the
    node. It works at once, or for a ``with`` block.

    Args:
        mode: whether nodes store the line.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import node_location, record_locations
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> with record_locations(True):
        ...     y = x * 2
        >>> node_location(y.grad_fn)[0].co_name
        '<module>'
        >>> node_location((x * 2).grad_fn) is None
        True
    """

    name = "locations"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


def are_locations_recorded() -> bool:
    """Returns whether nodes recorded in this thread store their location."""
    return modes.locations


def node_location(node: Any) -> Location | None:
    """Returns the code object and line that recorded a node; None if they were not stored.

    Args:
        node: any node of a graph.
    """
    return getattr(node, "_location", None)


def note_location(node: Any, parent: Any = None) -> None:
    """Stores the first frame outside of oplib as the location of a node.

    Args:
        node: a new node.
        parent: the node that is running. Its location is also that of nodes that it makes, unless user code
            is between them.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if not is_inside[name]:
            node._location = (code, frame.f_lineno)
            return
        if parent is not None and name == _ENGINE:
            node._location = parent._location
            return
        frame = frame.f_back


def find_frame() -> FrameType | None:
    """Returns the innermost frame outside of oplib."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_inside[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def show_location(location: Location) -> str:
    """Returns the text of a location for errors: file and line, function, and the source line."""
    code, line = location
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_name}" + (f": {text}" if text else "")
