"""Numbers, bools and strings that a function may read: a program is compiled for their values.

The code tells which these are: an attribute counts if its name stands in code that the function may run. A
counter that only the code around a compiled function names therefore compiles nothing again.
"""

from __future__ import annotations

import re
import sys
import types
from functools import partial
from typing import Any

from oplib.tensor import Generator

from .entries import list_slot_names
from .places import SCALARS, FoundObject, Walk, name_package

_DYNAMIC = frozenset({"__dict__", "__getattribute__", "asdict", "attrgetter", "fields", "getattr", "vars"})
_OF_OBJECTS_MADE = frozenset({"__init__", "__new__", "__post_init__", "__del__", "__repr__", "__str__"})
_UNNAMED = (list, tuple, types.CellType, types.MethodType, partial)
_NAME = re.compile(r"\['([^']*)'\](?:\.\w+)?$|\.(\w+)$")  # at the end of a step
_MISSING = object()


class NamesOfCode:
    """The names in code that a function may run.

    A method counts if its name stands in such code. Methods with names such as ``__call__`` count always.

    Args:
        walk: what the function leads to.

    Attributes:
        known: names of attributes and globals, and the strings, which may be keys.
        is_dynamic: whether the code may read attributes by names that it computes.
    """

    def __init__(self, walk: Walk) -> None:
        self.known: set[str] = set()
        self._reached: set[int] = set()
        functions = [
            place
            for place in walk.containers.values()
            if isinstance(place.value, types.FunctionType) and not _is_of_python(place.value)
        ]
        count = -1
        while count != len(self._reached):
            count = len(self._reached)
            for place in functions:
                if id(place.value) not in self._reached and self._is_reached(place):
                    self._reached.add(id(place.value))
                    self._add(place.value.__code__)
        self.is_dynamic = not _DYNAMIC.isdisjoint(self.known)

    def _add(self, code: types.CodeType) -> None:
        self.known.update(code.co_names, code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add(constant)
            elif isinstance(constant, str):
                self.known.add(constant)

    def _is_reached(self, place: FoundObject) -> bool:
        return any(self._is_named(one) for one in (place, *place.again))

    def _is_named(self, place: FoundObject) -> bool:
        """Whether each function on one way to a place may run, and the place itself has a name there."""
        parent = place.parent
        if parent is not None and isinstance(parent.value, type):
            name = _get_name(place) or ""
            is_special = name.startswith("__") and name.endswith("__") and name not in _OF_OBJECTS_MADE
            if name not in self.known and not is_special:
                return False
        while parent is not None:
            if isinstance(parent.value, types.FunctionType) and id(parent.value) not in self._reached:
                return False
            parent = parent.parent
        return True

    def lead_to(self, place: FoundObject) -> bool:
        """Whether the code may go the way to a place."""
        while place.parent is not None:
            held = place.parent.value
            if isinstance(held, Generator):
                return False
            if isinstance(held, types.FunctionType):
                if id(held) not in self._reached:
                    return False
            elif not isinstance(held, _UNNAMED) and not isinstance(place.value, type):
                name, holder = _get_name(place), place.parent.parent
                is_keyword = holder is not None and isinstance(holder.value, partial)
                if name is not None and name not in self.known and not is_keyword:
                    return False
            place = place.parent
        return not isinstance(place.value, Generator)


def _is_of_python(function: types.FunctionType) -> bool:
    return name_package(function) in sys.stdlib_module_names


def _get_name(place: FoundObject) -> str | None:
    """The name of an attribute or item, as it stands in code; None for an item without a name."""
    found = _NAME.search(place.step)
    return None if found is None else found[1] or found[2]


def read_scalars(value: Any, names: set[str] | None) -> dict[str, Any]:
    """Returns the numbers, bools, strings and Nones that an object has under some names; None for all names.

    A function has its globals, and an object also what its class has. An object alone may have all names.
    """
    if isinstance(value, types.CellType):
        held = _read_attribute(value, "cell_contents")
        return {"cell_contents": held} if isinstance(held, SCALARS) else {}
    if isinstance(value, types.FunctionType):
        listed = names & value.__globals__.keys() if names else set[str]()
        found = {name: value.__globals__[name] for name in listed & set(value.__code__.co_names)}
    elif isinstance(value, dict):
        found = {name: value[name] for name in (names or ()) if name in value}
    elif isinstance(value, (list, tuple, types.MethodType)):
        found = {}
    else:
        listed = _list_attributes(value) if names is None else _list_attributes(value) & names
        found = {name: _read_attribute(value, name) for name in sorted(listed)}
    return {name: held for name, held in found.items() if isinstance(held, SCALARS)}


def _list_attributes(value: Any) -> set[str]:
    found = {name for name in getattr(value, "__dict__", ()) if not name.startswith("__")}
    if isinstance(value, types.ModuleType):
        return found
    for cls in (value if isinstance(value, type) else type(value)).__mro__[:-1]:
        own = {name for name, held in vars(cls).items() if isinstance(held, SCALARS)}
        found |= {name for name in own if not name.startswith("__")}
    return found | (set() if isinstance(value, type) else set(list_slot_names(type(value))))


def _read_attribute(value: Any, name: str) -> Any:
    """Returns an attribute without running a property of the user."""
    attributes = getattr(value, "__dict__", {})
    if name in attributes:
        return attributes[name]
    for cls in (value if isinstance(value, type) else type(value)).__mro__:
        if name in vars(cls):
            held = vars(cls)[name]
            is_slot = isinstance(held, (types.MemberDescriptorType, types.GetSetDescriptorType))
            try:
                return getattr(value, name, _MISSING) if is_slot else held
            except ValueError:  # a closure cell without a content yet
                return _MISSING
    return _MISSING
