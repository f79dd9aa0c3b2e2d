"""Which frames a traceback shows: those of the user, and one line of oplib for each call into it.

A call enters oplib at an *entry point*: a function made from text, or one that is marked with
:func:`entry_point`. An error that leaves an entry point loses the frames between the user's call and the line
of oplib that raised, or that called the user's code. ``oplib.config.traceback = "full"`` keeps them all.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

import jax
import jaxlib
import optree

from oplib.config import config
from oplib.errors import OplibError

P = ParamSpec("P")
R = TypeVar("R")

_OWN = (f"{Path(__file__).parent}{os.sep}", "<call of ", "<oplib.")
_PACKAGES = tuple(f"{Path(str(module.__file__)).parent}{os.sep}" for module in (jax, jaxlib, optree))
_JAX_NOTE = "For simplicity, JAX has removed its internal frames"
_NOTE = 'oplib has hidden its other frames. oplib.config.traceback = "full" shows them.'


class _Files(dict[str, bool]):
    """Says of the file name of code whether the name begins with one of the prefixes."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        super().__init__()
        self._prefixes = prefixes

    def __missing__(self, name: str) -> bool:
        self[name] = found = name.startswith(self._prefixes)
        return found


_is_own = _Files(_OWN)
is_inside = _Files((*_OWN, *_PACKAGES, contextlib.__file__))
"""Whether the code of a file name belongs to oplib, or to JAX and others that stand between its frames."""


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function as one by which a user's call enters oplib.

    The function is wrapped. Where that would cost too much, write what the wrapper does into the function.

    Args:
        function: any function.

    Example:
        >>> @entry_point
        ... def half(number):
        ...     return number / 2
        >>> half(3)
        1.5
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    return call


def hide_frames(error: BaseException) -> None:
    """Takes the hidden frames out of the traceback of an error that is about to leave an entry point.

    Of frames inside oplib that follow one another the innermost stays. Frames of JAX go, as do those of
    optree. Everything else is the user's. The errors behind this one are treated alike.

    Args:
        error: that is being handled. A bare ``raise`` has to follow.
    """
    if config.traceback == "full":
        return
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _rebuild(one.__traceback__)
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    _edit_notes(error)


def _rebuild(traceback: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the hidden frames."""
    kept: list[TracebackType] = []
    own: TracebackType | None = None  # the innermost of the frames of oplib that have just been passed
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_inside[name]:
            if own is not None:
                kept.append(own)
                own = None
            kept.append(traceback)
        elif _is_own[name]:
            own = traceback
        traceback = traceback.tb_next
    if own is not None:
        kept.append(own)
    made: TracebackType | None = None
    for one in reversed(kept):
        made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return made


def _edit_notes(error: BaseException) -> None:
    """Drops JAX's note on its own frames where oplib raised, and says what is hidden where it did not."""
    notes: list[str] = getattr(error, "__notes__", [])
    if isinstance(error, OplibError):
        notes[:] = [note for note in notes if _JAX_NOTE not in note]
    elif _NOTE not in notes and _ends_inside(error.__traceback__):
        error.add_note(_NOTE)


def _ends_inside(traceback: TracebackType | None) -> bool:
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return is_inside[traceback.tb_frame.f_code.co_filename]
