"""The names of a program that lead to objects: which variable, list or closure keeps something alive."""

from __future__ import annotations

import gc
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import CellType, FrameType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from oplib.tracebacks import is_inside

_LIBRARIES = {"oplib", "jax", "jaxlib"}


class Referrers:
    """The shortest way from a name to each object that one leads to.

    Names of the user come first: local variables of running functions, and globals of modules. Then follow
    the modules of oplib and JAX.

    Attributes:
        numpy_arrays: those that were found.
    """

    def __init__(self) -> None:
        own, libraries = _list_namespaces()
        self._kept = own  # copies of local variables; what took their place would get their name
        self._names = {id(space): name for space, name in reversed([*own, *libraries])}
        self._holders: dict[int, Any] = dict.fromkeys(self._names)
        self.numpy_arrays: list[Any] = []
        self._walk(space for space, _ in own)
        self._walk(space for space, _ in libraries)

    def _walk(self, roots: Iterable[Any]) -> None:
        """Notes for each new object which one has led to it, the nearest first."""
        ahead = deque(roots)
        while ahead:
            holder = ahead.popleft()
            for child in gc.get_referents(holder):
                if id(child) not in self._holders and _is_followed(holder, child):
                    self._holders[id(child)] = holder
                    (self.numpy_arrays if issubclass(type(child), np.ndarray) else ahead).append(child)

    def find(self, held: Any) -> list[Any]:
        """Returns the objects on the way to one that is held; only this one if nothing leads to it."""
        way = [held]
        while (holder := self._holders.get(id(way[-1]))) is not None:
            way.append(holder)
        return way[::-1]

    def name(self, way: Sequence[Any]) -> str:
        """Returns how the program calls the last object of a way; empty if no name leads to it."""
        text = self._names.get(id(way[0])) if way else None
        if text is None:
            return ""
        is_namespace, free = True, ()
        for holder, child in pairwise(way):
            if isinstance(holder, (dict, list, tuple, deque)):
                items: Any = holder.items() if isinstance(holder, dict) else enumerate(holder)
                key = next((key for key, value in [*items] if value is child), "…")
                shown = f"[{key!r}]" if isinstance(key, (str, int)) else "[…]"
                text += f".{key}" if is_namespace else f".<closure>.{free[key]}" if free else shown
            elif child is getattr(holder, "__closure__", None):
                free = holder.__code__.co_freevars
                continue
            elif not isinstance(holder, CellType):
                text += _name_attribute(holder, child)
            is_namespace, free = child is getattr(holder, "__dict__", None), ()
        return text.lstrip(".")


def _is_followed(holder: Any, child: Any) -> bool:
    kind = type(child)  # `isinstance` would ask a proxy for its class
    if issubclass(kind, type):  # an object does not keep what its class has
        module = str(vars(child).get("__module__"))
        return child is not type(holder) and module.split(".", maxsplit=1)[0] not in _LIBRARIES
    if kind is FrameType:
        return not is_inside[child.f_code.co_filename]
    return gc.is_tracked(child) or issubclass(kind, np.ndarray)


def _name_attribute(holder: Any, child: Any) -> str:
    """Returns the attribute by which an object holds another, as text to append; empty if there is none."""
    slots = [
        name
        for cls in type(holder).__mro__
        for name, member in vars(cls).items()
        if isinstance(member, MemberDescriptorType)
    ]
    names = [*slots, *getattr(holder, "__dict__", ()), "__traceback__"]
    return next((f".{name}" for name in names if getattr(holder, name, None) is child), "")


def _list_namespaces() -> tuple[list[tuple[Any, str]], list[tuple[Any, str]]]:
    """Returns the namespaces of the user, and those of modules of oplib and JAX, each with its name."""
    own: list[tuple[Any, str]] = []
    libraries: list[tuple[Any, str]] = []
    frames: list[FrameType | None] = [*sys._current_frames().values()]
    for frame in frames:
        if frame is not None:
            frames.append(frame.f_back)  # the loop comes to it
            if not is_inside[frame.f_code.co_filename]:
                own += (_copy_locals(frame), _name_locals(frame)), (frame.f_globals, "")
    modules: list[Any] = [*sys.modules.values()]
    for module in modules:
        if isinstance(module, ModuleType):
            name = "" if module.__name__ == "__main__" else module.__name__
            is_library = is_inside[getattr(module, "__file__", None) or ""]
            (libraries if is_library else own).append((vars(module), name))
    return own, libraries


def _name_locals(frame: FrameType) -> str:
    return f"{frame.f_code.co_name}.<locals>" if frame.f_code.co_flags & inspect.CO_OPTIMIZED else ""


def _copy_locals(frame: FrameType) -> Any:
    held: Any = frame.f_locals
    if not _name_locals(frame):  # of a module or class
        return held
    copy = dict(held)
    if isinstance(held, dict) and sys.gettrace() is None:
        held.clear()  # Python keeps it until the function returns; a debugger may show it
    return copy
