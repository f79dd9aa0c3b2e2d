"""Constants: what a function may read that is no Tensor. A program is compiled for their values.

Numbers, strings and the like are compared by value, and objects that are not looked into by identity.

The code tells which these are: an attribute counts if its name stands in code that the function may run. A
counter that only the code around a compiled function names therefore compiles nothing again.
"""

from __future__ import annotations

import dis
import re
import sys
import types
from collections import deque
from functools import partial
from typing import Any

from oplib.tensor import Generator, Tensor

from .entries import list_codes, list_slot_names
from .paths import SCALARS, CapturedPath, Walk, name_package

_DYNAMIC = frozenset({"__dict__", "__getattribute__", "asdict", "attrgetter", "fields", "getattr", "vars"})
_OF_OBJECTS_MADE = frozenset({"__init__", "__new__", "__post_init__", "__del__", "__repr__", "__str__"})
_UNNAMED = (list, tuple, types.CellType, types.MethodType, partial)
_NAME = re.compile(r"\['([^']*)'\](?:\.\w+)?$|\.(\w+)$")  # at the end of a step
_NAMED = (type, types.FunctionType, types.ModuleType)
_OPERATIONS = {dis.opmap[name]: name for name in ("CONTAINS_OP", "DICT_MERGE", "DICT_UPDATE", "GET_ITER")}
_ITERATION = frozenset({"items", "keys", "values", "dict", "list", "set", "sorted", "tuple"}) | {
    "DICT_MERGE", "DICT_UPDATE", "GET_ITER"
}  # fmt: skip
_PROBES_OF_KEYS = _ITERATION | {"get", "len", "pop", "setdefault", "KeyError", "CONTAINS_OP"}
_PROBES_OF_ATTRIBUTES = _DYNAMIC | {"hasattr", "AttributeError"}
_MANY_KEYS = 1000
_MISSING = object()
_OF_TENSOR = "({0}.__class__, *kind_of({0}))"


class NamesOfCode:
    """The names in code that a function may run.

    A method counts if its name stands in such code. Methods with names such as ``__call__`` count always.

    Args:
        walk: what the function leads to.

    Attributes:
        known: names of attributes and globals, and the strings, which may be keys.
        probes_keys: whether the code may ask which keys a dictionary has, or how many.
        probes_attributes: whether it may ask which attributes an object has.
    """

    def __init__(self, walk: Walk) -> None:
        self.known: set[str] = set()
        self._reached: set[int] = set()
        functions = [
            path
            for path in walk.containers.values()
            if isinstance(path.value, types.FunctionType) and not _is_of_python(path.value)
        ]
        count = -1
        while count != len(self._reached):
            count = len(self._reached)
            for path in functions:
                if id(path.value) not in self._reached and self._is_reached(path):
                    self._reached.add(id(path.value))
                    for code in list_codes(path.value.__code__):
                        self._add(code)
        self.probes_keys = not _PROBES_OF_KEYS.isdisjoint(self.known)
        self.probes_attributes = not _PROBES_OF_ATTRIBUTES.isdisjoint(self.known)
        self._is_dynamic = not _DYNAMIC.isdisjoint(self.known)
        self._iterates = not _ITERATION.isdisjoint(self.known)

    def reads_all(self, value: Any, *, is_on_the_way: bool) -> bool:
        """Whether the code may read everything that a container holds, by names that it does not show."""
        if isinstance(value, dict):
            return is_on_the_way or self._iterates
        return is_on_the_way and self._is_dynamic and not isinstance(value, _NAMED)

    def _add(self, code: types.CodeType) -> None:
        self.known.update(code.co_names, code.co_freevars)
        self.known.update(name for number, name in _OPERATIONS.items() if number in code.co_code[::2])
        self.known.update(constant for constant in code.co_consts if isinstance(constant, str))

    def _is_reached(self, path: CapturedPath) -> bool:
        return any(self._is_named(route) for route in (path, *path.again))

    def _is_named(self, path: CapturedPath) -> bool:
        """Whether each function on one way to a path may run, and the path itself has a name there."""
        parent = path.parent
        if parent is not None and isinstance(parent.value, type):
            name = _get_name(path) or ""
            is_special = name.startswith("__") and name.endswith("__") and name not in _OF_OBJECTS_MADE
            if name not in self.known and not is_special:
                return False
        while parent is not None:
            if isinstance(parent.value, types.FunctionType) and id(parent.value) not in self._reached:
                return False
            parent = parent.parent
        return True

    def lead_to(self, path: CapturedPath) -> bool:
        """Whether the code may go the way to a path."""
        while path.parent is not None:
            held = path.parent.value
            if isinstance(held, Generator):
                return False
            if isinstance(held, types.FunctionType):
                if id(held) not in self._reached:
                    return False
            elif not isinstance(held, _UNNAMED) and not isinstance(path.value, type):
                name = _get_name(path)
                if name is not None and name not in self.known:
                    return False
            path = path.parent
        return not isinstance(path.value, Generator)


def _is_of_python(function: types.FunctionType) -> bool:
    return name_package(function) in sys.stdlib_module_names


def _get_name(path: CapturedPath) -> str | None:
    """The name of an attribute or item, as it stands in code; None for an item without a name."""
    match = _NAME.search(path.step)
    return None if match is None else match[1] or match[2]


def read_constants(value: Any, names: set[str] | None) -> dict[Any, Any]:
    """Returns what a container holds under some names that may be frozen into a program; None for all names.

    A function has its globals, a list all its items, and an object also the numbers that its class has.
    """
    if isinstance(value, types.CellType):
        held = _read_attribute(value, "cell_contents")
        return {} if held is _MISSING else {"cell_contents": held}
    if isinstance(value, types.FunctionType):
        listed = value.__globals__.keys() & set(value.__code__.co_names)
        return {name: value.__globals__[name] for name in sorted(listed if names is None else listed & names)}
    if isinstance(value, dict):
        return {key: held for key, held in value.items() if _is_listed(key, names)}
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(value))
    if isinstance(value, partial):
        return {"func": value.func}
    if isinstance(value, types.MethodType):
        return {}
    listed = _list_attributes(value)
    values = {
        name: _read_attribute(value, name) for name in sorted(listed if names is None else listed & names)
    }
    if isinstance(value, type):
        values = {name: held for name, held in values.items() if isinstance(held, SCALARS)}
    return {name: held for name, held in values.items() if held is not _MISSING}


def identify(path: CapturedPath, names: NamesOfCode) -> dict[str, Any]:
    """Returns what must stay as it is of a container: expressions for it, and their values.

    A function that is made again from the same code may stand for another, and so may an object for another
    of its class.
    """
    value, parent = path.value, None if path.parent is None else path.parent.value
    if isinstance(value, Tensor):
        return {_OF_TENSOR: (type(value), *read_kind(value))}
    if isinstance(value, types.FunctionType):
        is_method = parent is None or isinstance(parent, type)
        return {} if is_method else {"{}.__code__": value.__code__}
    if isinstance(value, type):
        return {} if "__mro__" in path.step else {"{}": value}
    if isinstance(value, (set, frozenset)) and all(isinstance(item, SCALARS) for item in value):
        return {"frozenset({})": frozenset(value)}
    if isinstance(value, dict):
        is_compared = names.probes_keys and len(value) <= _MANY_KEYS
        is_compared &= all(isinstance(key, SCALARS) for key in value)
        keys = {"tuple({})": tuple(value)} if is_compared else {"len({})": len(value)}
        return {"bool({})": bool(value), **keys}
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        return {"len({})": len(value)}
    if isinstance(value, (types.CellType, types.ModuleType, types.MethodType)):
        return {}
    attributes = getattr(value, "__dict__", None)
    if names.probes_attributes and isinstance(attributes, dict):
        return {"{}.__class__": type(value), "tuple({}.__dict__)": tuple(attributes)}
    return {"{}.__class__": type(value)}


def read_kind(tensor: Tensor) -> tuple[Any, ...]:
    """Returns what Python code may read of a Tensor that is no operand."""
    spec = tensor._storage.spec
    return tensor._requires_grad, tensor._grad is None, tensor._grad_fn is None, spec.shape, spec.dtype


def _is_listed(key: Any, names: set[str] | None) -> bool:
    return isinstance(key, SCALARS) if names is None else isinstance(key, str) and key in names


def _list_attributes(value: Any) -> set[str]:
    names = {name for name in getattr(value, "__dict__", ()) if not name.startswith("__")}
    if isinstance(value, types.ModuleType):
        return names
    for cls in (value if isinstance(value, type) else type(value)).__mro__[:-1]:
        own = {name for name, held in vars(cls).items() if isinstance(held, SCALARS)}
        names |= {name for name in own if not name.startswith("__")}
    return names | (set() if isinstance(value, type) else set(list_slot_names(type(value))))


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
