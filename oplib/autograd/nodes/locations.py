"""Where nodes were recorded: the line of the user's code, kept cheaply enough to be left on.

What is kept is a code object and a line number, which hold no frame and no value alive. Text is made of them
only when an error is to tell it.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from oplib.modes import modes
from oplib.tracebacks import is_inside

Location = tuple[CodeType, int]

_ENGINE = str(Path(__file__).resolve().parents[1] / "engine" / "run.py")


class record_locations:  # noqa: N801  a function to its users
    """Makes each recorded node remember the line of the user's code that it comes from, in this thread.

    Errors of a backward pass then name the line of the forward call. It costs about as much as one attribute
    of the node. At once when called, until the end of the block in a ``with`` statement.

    Args:
        mode: whether nodes remember.

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

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self._before = modes.locations
        modes.locations = self.mode

    def __enter__(self) -> None:
        modes.locations = self.mode

    def __exit__(self, *exc_info: object) -> None:
        modes.locations = self._before


def are_locations_recorded() -> bool:
    """Returns whether nodes recorded in this thread remember where they come from."""
    return modes.locations


def node_location(node: Any) -> Location | None:
    """Returns the code object and line where a node was recorded, None where nobody asked for it then.

    Args:
        node: any node of a graph.
    """
    return getattr(node, "_location", None)


def note_location(node: Any, parent: Any = None) -> None:
    """Makes a node remember the first frame outside of oplib.

    Args:
        node: that has just been made.
        parent: the node that is being executed. Its location is that of what it makes, unless code of a user
            stands between.
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
    """Returns a location as errors tell it: file and line, the function, and the text of the line."""
    code, line = location
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_name}" + (f": {text}" if text else "")
