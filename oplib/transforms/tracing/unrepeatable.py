"""What a trace may not do, because no call of its program would do it again, and no later call would notice.

Iterators that the trace advances, random numbers of Python and numpy, and files that it reads.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import pickle
import random
import sys
import threading
import types
import warnings
from collections.abc import Generator, Iterator, Set as AbstractSet
from operator import length_hint
from typing import Any

import numpy as np

from oplib.errors import TracingError
from oplib.protocols import Values

from .lookups import FOREIGN, INSTALLED

_Drawing = (random.Random, np.random.Generator, np.random.RandomState)
STATEFUL = (Iterator, io.IOBase, *_Drawing)
"""Classes of objects whose state is looked at before and after a trace."""

_GLOBAL = random._inst, np.random.mtrand._rand
_LOADERS = frozenset({"importlib", "inspect", "linecache", "logging", "tokenize", "traceback", "warnings"})


_PASSING = sys.stdlib_module_names | {"numpy"}
"""Packages that open files for their callers, but for the loaders."""


class _Reading(threading.local):
    """The files that the code of the user has opened in this thread; None outside of a trace."""

    files: list[str] | None = None


_reading = _Reading()
_lock = threading.RLock()
_watching: dict[int, list[str]] = {}
_OPENING: Values = (builtins, io)
_replaced: list[Any] = [module.open for module in _OPENING]
"""``builtins.open`` and ``io.open`` outside of traces; another library may have replaced them too."""


@contextlib.contextmanager
def refuse_unrepeatable(name: Any, stateful: dict[int, Any], names: AbstractSet[Any]) -> Generator[None]:
    """Raises if the code in the block advanced an iterator, drew a random number, or read a file.

    Args:
        name: of the traced function.
        stateful: the paths of objects of the classes :data:`STATEFUL` that it leads to.
        names: those in its code. Other threads may draw numbers that it does not name.
    """
    held = [(path.name, path.value) for path in stateful.values()]
    if "random" in names or threading.active_count() == 1:
        held += [("random", _GLOBAL[0]), ("numpy.random", _GLOBAL[1])]
    before = [_describe(value) for _, value in held]
    with _watch_files() as files:
        yield
    changed = [shown for (shown, value), state in zip(held, before, strict=True) if _describe(value) != state]
    for found in (*files, *[f"{shown} was advanced" for shown in changed]):
        raise TracingError(
            f"{name}: the function was traced, and a call of its program does not do again what it did. "
            f"Got: {found}. Do it outside of the function, and give it what this gives as an argument; draw "
            "numbers with oplib, as by oplib.rand."
        )


def _describe(value: Any) -> Any:
    """Returns the state of an object, as something to compare."""
    if isinstance(value, _Drawing):
        drawing: Any = value
        read = getattr(drawing, "getstate", None) or getattr(drawing, "get_state", None)
        return pickle.dumps(drawing.bit_generator.state if read is None else read())
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    if isinstance(value, tuple):
        return tuple(map(_describe, value))
    if isinstance(value, types.GeneratorType):
        frame: Any = value.gi_frame
        return frame and (frame.f_lasti, list(map(_describe, frame.f_locals.values())))
    if not isinstance(value, (Iterator, io.IOBase)):
        return id(value), len(value) if isinstance(value, list) else None
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of itertools, from Python 3.12 on
        if isinstance(value, io.IOBase):
            return value.tell()
        if type(value).__module__ in {"array", "builtins", "itertools", "collections", "_collections"}:
            return length_hint(value, -1), repr(value), _describe(value.__reduce__())
    return None


@contextlib.contextmanager
def _watch_files() -> Generator[list[str]]:
    """Gives the files that this thread opens to read them. While any thread watches, ``open`` is another."""
    outer, files = _reading.files, list[str]()
    try:
        with _lock:
            _watching[id(files)] = files
            for number, module in enumerate(_OPENING if len(_watching) == 1 else ()):
                if module.open is not _open:  # it is still there if an interrupt came before it was put back
                    _replaced[number], module.open = module.open, _open
        _reading.files = files
        yield files
    finally:
        _reading.files = outer
        _watching.pop(id(files), None)  # first: an interrupt after it leaves nobody who seems to watch
        with _lock:
            for module, own in zip(_OPENING, () if _watching else _replaced, strict=False):
                if module.open is _open:  # nobody has replaced it meanwhile
                    module.open = own


def _open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    if _reading.files is not None and not {"r", "+"}.isdisjoint(mode):
        _note_file(_reading.files, file)
    return _replaced[0](file, mode, *args, **kwargs)


def _note_file(files: list[str], file: Any) -> None:
    frame: Any = sys._getframe(2)
    package = _name_package(frame)
    while frame.f_back is not None and package not in _LOADERS and package in _PASSING:
        frame = frame.f_back
        package = _name_package(frame)
    if package in FOREIGN or INSTALLED in frame.f_code.co_filename:
        return
    if frame.f_code.co_name != "<module>":  # code of a module that is imported runs once anyway
        files.append(f"{frame.f_code.co_filename}:{frame.f_lineno} reads {str(file)!r}")


def _name_package(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]
