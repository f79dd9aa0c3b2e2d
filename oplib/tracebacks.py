"""Short tracebacks: the frames of the user, and one line of oplib for each call into it.

A call enters oplib at an *entry point*: a function made from text, or one that is marked with
:func:`entry_point`. An error that leaves an entry point loses the frames between the user's call and the line
of oplib that raised, or that called the user's code. ``oplib.config.traceback = "full"`` keeps them all.
An error of Python, numpy or JAX is replaced if no code of the user ran, see ``raw_errors.py``.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import NoReturn, ParamSpec, TypeVar

import jax
import jaxlib
import numpy as np
import optree
from jax.extend.source_info_util import register_exclusion

from oplib.config import config
from oplib.errors import OplibError
from oplib.raw_errors import explain_raw

P = ParamSpec("P")
R = TypeVar("R")

_OWN = (f"{Path(__file__).parent}{os.sep}", "<call of ", "<oplib.")
_PACKAGES = tuple(f"{Path(str(module.__file__)).parent}{os.sep}" for module in (jax, jaxlib, optree))
for _prefix in _OWN:  # jaxprs and profiles show the line of the user's call
    register_exclusion(_prefix)

_JAX_NOTE = "For simplicity, JAX has removed its internal frames"
_IN_RULE = "_oplib_in_rule"
_RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})
_NOTE = 'oplib has hidden its other frames. oplib.config.traceback = "full" shows them.'


class FilesIn(dict[str, bool]):
    """Says of the file name of code whether the name begins with one of the prefixes."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        super().__init__()
        self._prefixes = prefixes

    def __missing__(self, name: str) -> bool:
        self[name] = is_inside = name.startswith(self._prefixes)
        return is_inside


is_own = FilesIn(_OWN)
"""Whether the code of a file name belongs to oplib."""
is_inside = FilesIn((*_OWN, *_PACKAGES, contextlib.__file__))
"""Whether the code of a file name belongs to oplib, or to JAX and others that stand between its frames."""
_is_of_packages = FilesIn(
    (*_OWN, *_PACKAGES, f"{Path(np.__file__).parent}{os.sep}", contextlib.__file__, "<frozen ")
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Gives a warning at the line of the user that has entered oplib."""
    warnings.warn(message, category, stacklevel=find_frame_outside(is_inside)[1] + 1)


def find_frame_outside(files: FilesIn) -> tuple[FrameType, int]:
    """Returns the innermost frame whose code is in none of some files, or the outermost frame of all.

    Returns:
        The frame, and which one it is: ``warnings.warn`` of the caller's caller counts them alike.
    """
    level = 1
    frame = sys._getframe(2)
    while frame.f_back is not None and files[frame.f_code.co_filename]:
        frame = frame.f_back
        level += 1
    return frame, level


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
    name = function.__name__
    if name == "__init__":  # errors name the class
        name = function.__qualname__.split(".")[-2]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if better := refine_error(error, name):
                raise better from error
            raise

    return call


class CarriedError(BaseException):
    """Carries an error of a trace out of a compiled function of JAX.

    For an ``Exception`` that leaves a compiled function JAX compares the file of each frame with all of its
    own, which takes 15 ms. It leaves other exceptions alone.

    Args:
        error: what a kernel raised while it was traced.
    """

    def __init__(self, error: Exception) -> None:
        self._errors = [error]

    def release(self) -> NoReturn:
        """Raises the error as if nothing had carried it. The two may not refer to each other."""
        error = self._errors.pop()
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context
            del error, context, self


def carry_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function to be compiled whose errors are carried to :func:`call_compiled`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if config.traceback == "full":
                raise
            raise CarriedError(error) from None

    return call


def call_compiled(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls a compiled function of :func:`carry_errors` and raises the errors that it carries."""
    try:
        return function(*args, **kwargs)
    except CarriedError as carried:
        carried.release()


def rule_of_jax(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that JAX calls to transform an op, such as its derivative.

    An error of JAX in it stays as it is, because it is not about the arguments of a call.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if not isinstance(error, OplibError):
                setattr(error, _IN_RULE, True)
            _hide_frames(error)
            raise

    return call


def refine_error(error: Exception, name: str | None = None) -> Exception | None:
    """Prepares an error that is about to leave an entry point.

    The hidden frames leave its traceback. If no code of the user ran below the entry point, an error of
    Python, numpy or JAX is replaced by one of oplib, which says which call it is about.

    Args:
        error: that is being handled.
        name: of the entry point; by default that of its frame.

    Returns:
        The error to raise from this one; None if a bare ``raise`` has to follow.
    """
    traceback = error.__traceback__
    better = None
    is_raw = not isinstance(error, OplibError) and not hasattr(error, _IN_RULE)
    if traceback is not None and is_raw and _is_without_user(traceback):
        better = explain_raw(error, traceback.tb_frame, name)
    _hide_frames(error)
    return better


def find_mistake(error: Exception) -> tuple[FrameType, FrameType, int] | None:
    """Returns the user's line below which Python, numpy, JAX or oplib raised an error, if there is one.

    A function of numpy in C leaves no frame below the line, and a missing attribute none. The instruction of
    the line tells these from a ``raise``.

    Returns:
        The frame of the user's function that oplib has called, the frame of the line, and its number. None
        if the user's code raised the error itself, or did not run.
    """
    called: FrameType | None = None
    found = None
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if not _is_of_packages[frame.f_code.co_filename]:
            called = called or frame
            is_below = traceback.tb_next is not None or _fails_in_c(error, traceback, called)
            found = (called, frame, traceback.tb_lineno) if is_below else None
        traceback = traceback.tb_next
    return found


def _fails_in_c(error: Exception, traceback: TracebackType, called: FrameType) -> bool:
    """Tells whether numpy below a line, a traced array or a missing attribute of an array has raised."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):  # no file of JAX may be below
        return error.obj.__name__.startswith(("jax.", "numpy"))
    values = [error.obj] if isinstance(error, AttributeError) else [*called.f_locals.values()]
    lists = [[*value.values()] if isinstance(value, dict) else value for value in values]
    values += [item for value in lists if isinstance(value, (list, tuple)) for item in value]
    kinds = (np.ndarray, jax.Array) if isinstance(error, AttributeError) else np.ndarray
    code = traceback.tb_frame.f_code.co_code[traceback.tb_lasti]
    is_of_array = "Tracer" in str(error) or any(isinstance(value, kinds) for value in values)
    return is_of_array and dis.opname[code] not in _RAISES


def _is_without_user(traceback: TracebackType | None) -> bool:
    """Tells whether no frame below an entry point belongs to code of the user."""
    while traceback is not None:
        if not _is_of_packages[traceback.tb_frame.f_code.co_filename]:
            return False
        traceback = traceback.tb_next
    return True


def _hide_frames(error: BaseException) -> None:
    """Takes the hidden frames out of the traceback of an error that is about to leave an entry point.

    Of frames inside oplib that follow one another the innermost stays. Frames of JAX go, as do those of
    optree. Everything else is the user's. The errors behind this one are treated alike, unless the user's
    code handles them: it may raise them again.

    Args:
        error: that is being handled. A bare ``raise`` has to follow.
    """
    if config.traceback == "full":
        return
    _shorten(error)
    seen = {id(error)}
    behind = _find_behind(error)
    while behind is not None and id(behind) not in seen and behind.__traceback__ is not None:
        if not is_inside[behind.__traceback__.tb_frame.f_code.co_filename]:
            break  # the function that handles it belongs neither to oplib nor to JAX
        _shorten(behind)
        seen.add(id(behind))
        behind = _find_behind(behind)
    if not isinstance(error, OplibError) and _ends_inside(error.__traceback__):
        _note_setting(error)


def _find_behind(error: BaseException) -> BaseException | None:
    """Returns the error that Python prints before this one."""
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _shorten(error: BaseException) -> None:
    error.__traceback__ = _rebuild(error.__traceback__)
    _order_notes(error)


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
        elif is_own[name]:
            own = traceback
        traceback = traceback.tb_next
    if own is not None:
        kept.append(own)
    made: TracebackType | None = None
    for entry in reversed(kept):
        line = entry.tb_lineno or -1  # it is None where a signal handler raises between the lines of a frame
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, line)
    return made


def _order_notes(error: BaseException) -> None:
    """Moves JAX's note on its frames to the end, or drops it: they explain no error that oplib raised."""
    notes: object = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        notes.sort(key=_is_of_jax)
        if isinstance(error, OplibError):
            notes[:] = itertools.filterfalse(_is_of_jax, notes)


def _is_of_jax(note: object) -> bool:
    return isinstance(note, str) and _JAX_NOTE in note


def _note_setting(error: BaseException) -> None:
    """Says in an error that oplib did not raise on purpose how to see the hidden frames."""
    if _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
        _order_notes(error)


def _ends_inside(traceback: TracebackType | None) -> bool:
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return is_inside[traceback.tb_frame.f_code.co_filename]
