"""Constants: what a function may read that is no Tensor. A program is compiled for their values.

Numbers, strings and the like are compared by value, and objects that are not looked into by identity.

The code tells which these are: of what the walk has found, a step counts if its name stands in code that the
function may run. Each function to which such steps lead adds its names. A counter that only the code around a
compiled function names therefore compiles nothing again.
"""

from __future__ import annotations

import builtins
import dis
import itertools
import logging
import sys
import types
from collections import deque
from collections.abc import Iterable
from typing import Any

from oplib.autograd.recording.view import has_lost_history
from oplib.library.op_objects.overload import OpOverload
from oplib.protocols import Values
from oplib.tensor import Generator, Tensor
from oplib.tracebacks import is_own

from .entries import (
    MISSING,
    is_stored,
    list_codes,
    list_global_names,
    list_operations,
    list_slot_names,
    read_stored,
)
from .lookups import ASKED_LEVELS, FOREIGN, read_level
from .paths import (
    CODE_OF_CLASS,
    GETTERS,
    KEYS,
    RULE,
    SCALARS,
    STEPS,
    CapturedPath,
    Walk,
    is_of_others,
    name_package,
)

_DYNAMIC = frozenset({
    "MATCH_CLASS", "__dict__", "__getattribute__", "asdict", "astuple", "attrgetter", "fields", "getattr",
    "vars",
})  # fmt: skip
_OF_OBJECTS_MADE = frozenset({"__init__", "__new__", "__post_init__", "__del__", "__repr__", "__str__"})
_UNNAMED = (list, tuple, types.CellType, *[classes for classes, _ in STEPS])
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
_LEADING = ("__dict__", "__wrapped__", "_opoverload", "_overloads")
_CALLING = FOREIGN - {"abc", "builtins", "collections", "types", "typing"}
"""Packages whose classes may call what their objects hold."""
_ITERATING = {
    "CALL_FUNCTION_EX", "DICT_MERGE", "DICT_UPDATE", "GET_ITER", "LIST_EXTEND", "MATCH_MAPPING", "SET_UPDATE",
    "UNPACK_EX", "UNPACK_SEQUENCE",
}  # fmt: skip
_MADE_BY_KEYS = {"BUILD_SET", "MAP_ADD", "SET_ADD"}
_OPERATIONS = {dis.opmap[name]: name for name in (*_ITERATING, *_MADE_BY_KEYS, "MATCH_CLASS")}
_ON_HEAP = 1 << 9  # the flag of classes that Python code makes
ABSENT = "absent from "
_CONSTANTS = {*map(dis.opmap.get, ("LOAD_CONST", "LOAD_SMALL_INT", "BUILD_SLICE"))}
_SMALL_INTEGER = dis.opmap.get("LOAD_SMALL_INT")
_ITERATION = _ITERATING | {
    "all", "any", "dict", "enumerate", "items", "iter", "keys", "list", "map", "max", "min", "set", "sorted",
    "sum", "tree", "tree_flatten", "tree_leaves", "tree_map", "tuple", "values", "zip",
}  # fmt: skip
_CAUGHT = frozenset({"Exception", "BaseException"})
_PROBES_OF_KEYS = _ITERATION | _CAUGHT | {
    "get", "len", "pop", "setdefault", "KeyError", "LookupError", "a in b", "a == b", "a[b]", "__contains__",
    "__iter__", "__len__",
}  # fmt: skip
PROBES_OF_OBJECTS = _MADE_BY_KEYS | {
    "a in b", "a is b", "a == b", "a[b]", "add", "contains", "count", "dict", "discard", "eq", "frozenset",
    "get", "getitem", "index", "is_", "is_not", "isdisjoint", "issubset", "issuperset", "ne", "pop", "remove",
    "set", "setdefault", "__contains__", "__eq__", "__getitem__",
}  # fmt: skip
_PROBES_OF_IDENTITY = frozenset({"hash", "id"})
_PROBES_OF_ATTRIBUTES = _DYNAMIC | _CAUGHT | {"hasattr", "AttributeError"}
_PROBES_OF_GLOBALS = _CAUGHT | {"globals", "NameError"}
_MANY_ITEMS = 1000
_MADE = ("dict(", "tuple(")  # steps that make another object at each call
_OF_TENSOR = "({0}.__class__, *kind_of({0}))"


_COMPARING = {
    operation: text.replace("!=", "==").replace("not in", "in").replace("is not", "is")
    for text in ("a[b]", "a in b", "a not in b", "a is b", "a is not b", "a == b", "a != b")
    # where it decides what runs, the argument of an operation may be another
    for operation in list_operations(compile(f"0 if {text} else ({text})", "", "eval"))
    if dis.opname[operation[0]] in {"BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "IS_OP"}
}
"""The operations that tell objects apart, each with a text for it."""


class NamesOfCode:
    """The names in code that a function may run.

    A method counts if its name stands in such code. Methods with names such as ``__call__`` count always.

    Args:
        walk: what the function leads to.

    Attributes:
        known: names of attributes and globals, and the strings and integers, which may be keys.
        is_dynamic: whether the code may compute the name of an attribute.
    """

    def __init__(self, walk: Walk) -> None:
        self.known: set[Any] = set()
        reached = [path for path in walk.list_paths() if path.parent is None]
        for path in reached:
            self._reach(path)
        waiting: dict[int, list[CapturedPath]] = {}
        count = -1
        while count != (count := len(self.known) + len(reached)):
            self.is_dynamic = self.has(_DYNAMIC)
            for path in reached:
                ways = waiting.get(id(path), walk.children[id(path.value)])
                reads_all = bool(ways) and self.reads_all(path.value, is_on_the_way=False)
                waiting[id(path)] = []
                for way in ways:
                    way.is_step_of_code = self.may_step(way, path, reads_all=reads_all)
                    if not way.is_step_of_code:
                        waiting[id(path)].append(way)
                    elif (first := walk.find(way.value)) is not None and not first.is_reachable:
                        self._reach(first)
                        reached.append(first)
        if self.has(_PROBES_OF_ATTRIBUTES):
            self.known.update(("__getattr__", "__getattribute__"))

    def _reach(self, path: CapturedPath) -> None:
        """Adds the names in an object that the code may reach."""
        path.is_reachable = True
        value = path.value
        if isinstance(value, types.FunctionType) and not _is_of_python(value):
            for code in list_codes(value.__code__):
                self._add(code)
        elif isinstance(value, GETTERS):
            self._add_constants(value.__reduce__()[1])
        elif isinstance(value, _BOUND):
            self.known.add(value.__name__)

    def has(self, names: Iterable[Any]) -> bool:
        """Whether one of these is in the code."""
        return not self.known.isdisjoint(names)

    def may_step(self, way: CapturedPath, holder: CapturedPath, *, reads_all: bool) -> bool:
        """Whether the code may take a step from an object, of which it may read all if ``reads_all``."""
        held: Any = holder.value
        name: Any = way.key if way.is_constant and way.key is not None else way.name_in_code
        if isinstance(held, Generator) or (way.via == KEYS and not self.has(PROBES_OF_OBJECTS)):
            return False
        if isinstance(held, types.FunctionType):
            return not _is_of_python(held)
        if way.via.startswith(RULE):
            return not way.is_constant  # the version of the op is compared
        if isinstance(held, type) and isinstance(way.value, CODE_OF_CLASS):
            is_called = name in self.known or self._is_called_by_others(holder, name)
            self.known.update([name] if is_called else [])
            return is_called
        if way.is_constant and way.key is not None:
            is_last = isinstance(held, (list, tuple, deque)) and name - len(held) in self.known
            return reads_all or is_last or name in self.known
        if name is None or isinstance(held, _UNNAMED) or isinstance(way.value, type):
            return True
        if reads_all or name in self.known or name in _LEADING:
            return True
        bases: Any = () if way.is_constant or isinstance(held, Tensor) else type(held).__mro__
        return not _CALLING.isdisjoint(map(name_package, bases))

    def reads_all(self, value: Any, *, is_on_the_way: bool) -> bool:
        """Whether the code may read everything that a container holds, by names that it does not show."""
        if isinstance(value, dict):
            return is_on_the_way or (self.asks_keys(value) and len(value) <= _MANY_ITEMS)
        if isinstance(value, (list, tuple, deque)):
            return is_on_the_way or len(value) <= _MANY_ITEMS
        is_read = self.is_dynamic or (not isinstance(value, Tensor) and _keeps_all(value))
        return is_read and not isinstance(value, types.ModuleType)

    def asks_keys(self, value: dict[Any, Any]) -> bool:
        """Whether the code may ask which keys a dictionary has, or its class does for a missing one."""
        return self.has(_PROBES_OF_KEYS) or hasattr(type(value), "__missing__")

    def list_absent(self, held: Any, others: Iterable[Any]) -> frozenset[str]:
        """Returns the names in the code that attributes do not have, though other code may give them these.

        If the code does not ask which attributes there are, a name counts only if others have it.
        """
        names = self.known if self.has(_PROBES_OF_ATTRIBUTES) else self.known & set().union(*others)
        return frozenset(name for name in names if isinstance(name, str) and name not in held)

    def _add(self, code: types.CodeType) -> None:
        self.known.update(code.co_names, code.co_freevars)
        operations = list_operations(code)
        numbers = {number for number, _ in operations}
        self.known.update(name for number, name in _OPERATIONS.items() if number in numbers)
        self._add_constants(code.co_consts)
        # since Python 3.14 small integers are no constants of the code
        self.known.update(argument for number, argument in operations if number == _SMALL_INTEGER)
        pairs = itertools.pairwise(operations)
        self.known.update(
            _COMPARING[after]
            for (before, _), after in pairs
            if after in _COMPARING and before not in _CONSTANTS
        )

    def _add_constants(self, constants: Iterable[Any]) -> None:
        for constant in constants:
            if isinstance(constant, (str, int)):
                self.known.add(constant)
                self.known.update(constant.split(".") if isinstance(constant, str) else ())

    def _is_called_by_others(self, cls: CapturedPath, name: str) -> bool:
        """Whether Python calls a method by its name, or a class of another package that has it too."""
        if name in _OF_OBJECTS_MADE:  # code that names a class may make objects of it
            return any("__mro__" not in way.via and way.is_step_of_code for way in (cls, *cls.again))
        if name.startswith("__") and name.endswith("__"):
            return True
        return any(name in vars(base) for base in cls.value.__mro__[1:] if is_of_others(base))


def _is_of_python(function: types.FunctionType) -> bool:
    return name_package(function) in sys.stdlib_module_names


def _keeps_all(value: Any) -> bool:
    """Whether methods of Python read what an object holds, such as those of a ``UserDict``."""
    return not {"collections", "weakref"}.isdisjoint(map(name_package, type(value).__mro__))


def identify(path: CapturedPath, names: NamesOfCode) -> dict[str, Any]:
    """Returns what must stay as it is of a container: expressions for it, and their values."""
    return _identify(path, names) | identify_object(path, names)


def identify_object(path: CapturedPath, names: NamesOfCode) -> dict[str, Any]:
    """Returns the identity of an object that the code may compute with, unless a call makes the object."""
    parent = path.parent
    is_root = parent is None or (parent.parent is None and isinstance(parent.value, (list, tuple)))
    is_made = isinstance(path.value, tuple) or path.via.startswith(_MADE)
    return {"id({})": id(path.value)} if names.has(_PROBES_OF_IDENTITY) and not (is_root or is_made) else {}


def _identify(path: CapturedPath, names: NamesOfCode) -> dict[str, Any]:
    """Returns what must stay as it is of a container.

    A function that is made again from the same code may stand for another, and so may an object for another
    of its class. After :data:`ABSENT` an expression gives a dictionary, and the value names that it lacks.
    """
    value, parent = path.value, None if path.parent is None else path.parent.value
    if isinstance(value, Tensor):
        return {_OF_TENSOR: (type(value), *read_kind(value))}
    if isinstance(value, types.FunctionType):
        return _identify_function(value, names, is_method=isinstance(parent, type))
    if isinstance(value, type):
        same = {} if "__mro__" in path.via else {"{}": value}
        others = (*value.__mro__[1:-1], *type(path.value).__mro__[:-2])
        return same | _identify_attributes(value, names, others)
    if isinstance(value, (dict, list, tuple, deque, set, frozenset)):
        return _identify_items(value, names, is_made=path.via.startswith(_MADE))
    if isinstance(value, types.ModuleType):
        return _identify_attributes(value, names, ())
    if isinstance(value, (types.CellType, types.MethodType, Generator)):
        return {}
    if isinstance(value, _BOUND):
        is_bound = not isinstance(value.__self__, (type, types.ModuleType))
        return {"({}.__name__,)": (value.__name__,)} if is_bound else {"{}": value}
    if isinstance(value, (logging.Logger, logging.LoggerAdapter)):
        is_asked = names.has(ASKED_LEVELS)
        return {"(read_level({}),)": (read_level(value),)} if is_asked else {}
    if isinstance(value, OpOverload):  # its kernels and rules may change
        return {"{}.record.version": value.record.version}
    hidden: dict[str, Any] = {"{}": value} if _hides_state(type(value)) else {}
    return (
        hidden | {"{}.__class__": type(value)} | _identify_attributes(value, names, type(value).__mro__[:-1])
    )


def _hides_state(cls: type) -> bool:
    """Whether a class of the user has a base of Python, such as a date, that keeps more than attributes."""
    if cls in (types.CodeType, types.GenericAlias, types.UnionType):
        return True
    return bool(cls.__flags__ & _ON_HEAP) and not all(base.__flags__ & _ON_HEAP for base in cls.__mro__[:-1])


def _identify_function(
    function: types.FunctionType, names: NamesOfCode, *, is_method: bool
) -> dict[str, Any]:
    code = function.__code__
    if is_own[code.co_filename]:  # oplib writes it anew, and the globals with it
        return {}
    identity: dict[str, Any] = {"{}.__code__": code}
    if names.has(_PROBES_OF_ATTRIBUTES) and not is_method:
        identity[f"{ABSENT}{{}}.__dict__"] = names.list_absent(vars(function), ())
    asked = list_global_names(code) - function.__globals__.keys()
    if not names.has(_PROBES_OF_GLOBALS):
        asked &= vars(builtins).keys()  # another name is an error, unless somebody asks first
    if asked:
        identity[f"{ABSENT}{{}}.__globals__"] = asked
    return identity


def _identify_items(value: Any, names: NamesOfCode, *, is_made: bool) -> dict[str, Any]:
    length: dict[str, Any] = {"len({})": len(value)}
    if len(value) > _MANY_ITEMS:
        if isinstance(value, dict):
            length[f"{ABSENT}{{}}"] = names.list_absent(value, [names.known])
        items = value.values() if isinstance(value, dict) else value
        has_identity = not is_made and not any(isinstance(item, Tensor) for item in items)
        return {**length, "id({})": id(value)} if has_identity else length
    if isinstance(value, (set, frozenset)) and all(isinstance(item, SCALARS) for item in value):
        return {"frozenset({})": frozenset(value)}
    if not isinstance(value, dict):
        return length
    is_compared = names.asks_keys(value) and all(isinstance(key, SCALARS) for key in value)
    return {"bool({})": bool(value), **({"tuple({})": tuple(value)} if is_compared else length)}


def _identify_attributes(value: Any, names: NamesOfCode, others: Iterable[type]) -> dict[str, Any]:
    attributes = read_stored(value, "__dict__")
    slots = () if isinstance(value, (type, types.ModuleType)) else list_slot_names(type(value))
    empty = [name for name in slots if name in names.known and not is_stored(value, name)]
    identity: dict[str, Any] = {}
    if empty:
        identity[f"tuple([is_stored({{}}, name) for name in {empty}])"] = (False,) * len(empty)
    if attributes is MISSING:
        return identity
    if names.reads_all(value, is_on_the_way=False):
        return identity | {"tuple({}.__dict__)": tuple(attributes)}
    absent = names.list_absent(attributes, map(vars, others))
    if not isinstance(value, type):  # Python looks for special methods in classes only
        absent = frozenset(name for name in absent if not name.startswith("__"))
    return identity | ({f"{ABSENT}{{}}.__dict__": absent} if absent else {})


def read_kind(tensor: Tensor) -> Values:
    """Returns what Python code may read of a Tensor that is no operand."""
    spec = tensor._storage.spec
    has_node = has_lost_history(tensor) or tensor._grad_fn is not None
    return tensor._requires_grad, tensor._grad is None, has_node, spec.shape, spec.dtype
