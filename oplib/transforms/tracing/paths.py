"""Paths: how a function leads to the Tensors that it captures.

A walk starts at a function and at the leaves of its arguments. It goes through closure cells, globals that
the code names, defaults, attributes, items, bound objects and the functions of classes, breadth first. It
keeps a :class:`CapturedPath` for every object: the object, the path before it, and the step between the two,
and one for every constant, which it does not look into.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import logging
import re
import sys
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import jax
import numpy as np

from oplib.library.op_objects.namespace import OpOverloadPacket, OpsNamespaces
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record
from oplib.tensor import Generator, Tensor, default_generator
from oplib.tensor.methods.copying import users_attributes
from oplib.tracebacks import is_own

from .entries import (
    MISSING,
    list_globals,
    list_names,
    list_own_slots,
    read_attributes,
    read_cell,
    read_stored,
)
from .lookups import FOREIGN, INSTALLED, LOOKUPS, list_lookups
from .unrepeatable import STATEFUL

SCALARS = (bool, int, float, complex, str, bytes, type(None), enum.Enum, np.dtype, np.generic)
"""Values that are frozen into a program, and compared at the next call."""

# Objects of the modules that are left out here may hold others.
_OPAQUE = FOREIGN - {
    "_contextvars", "_thread", "argparse", "builtins", "collections", "functools", "oplib", "operator",
    "types", "weakref",
}  # fmt: skip
RULE = "{}.record."
"""How the step from an op to a kernel or rule begins, which is code of users."""
_RULES = ("derivative.backward", "derivative.setup_context", "derivative.forward", "vmap", "fake")

GETTERS = (attrgetter, itemgetter, methodcaller)
STEPS: tuple[tuple[Any, dict[str, str]], ...] = (
    (types.MethodType, {"{}.__self__": "self", "{}.__func__": "{0}"}),
    (
        functools.partial,
        {"{}.func": "{0}.func", "{}.args": "{0}.args", "tuple({}.keywords.items())": "{0}.keywords"},
    ),
    ((types.BuiltinFunctionType, types.MethodWrapperType), {"{}.__self__": "{0}"}),
    ((staticmethod, classmethod), {"{}.__func__": "{0}"}),
    (property, {"{}.fget": "{0}", "{}.fset": "{0}", "{}.fdel": "{0}"}),
    (weakref.ref, {"{}()": "{0}"}),
    (types.MappingProxyType, {"dict({})": "{0}"}),
    ((type({}.keys()), type({}.values()), type({}.items())), {"{}.mapping": "{0}"}),
    (contextvars.ContextVar, {"tuple([{}.get(MISSING)])": "{1.name}.get()"}),
    (GETTERS, {"tuple({}.__reduce__())": "{0}"}),
    (OpOverloadPacket, {"{}._overloads": "{0}"}),
)
"""The steps from objects of Python, each with a name in terms of the name of the object, and the object."""

KEYS = "tuple({}.keys())"
"""The step to the keys of a dictionary that are objects. The walk takes it last."""

CODE_OF_CLASS = (types.FunctionType, property, staticmethod, classmethod)
"""What a class holds that is code, and that is compared as one object."""

_COLLECTIONS = (dict, list, tuple, deque, set, frozenset)
_WALKED = (*_COLLECTIONS, functools.partial, logging.Logger, logging.LoggerAdapter)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_LEAVES = (*SCALARS, *_DESCRIPTORS, np.ndarray, range, slice, type(Ellipsis))


_GLOBALS = "{}.__globals__"
_NAME = re.compile(r"\.(\w+)$")  # at the end of a step


WORDS: dict[str, Any] = {
    "MISSING": MISSING, "modules": sys.modules, **{look_up.__name__: look_up for look_up in LOOKUPS}
}  # fmt: skip
"""What the expressions of steps refer to."""


@functools.lru_cache(maxsize=1024)
def compile_step(via: str) -> Callable[[Any], Any]:
    """Returns the expression of a step as a function of the parent."""
    return eval(f"lambda held: {via.format('held')}", WORDS)


class CapturedPath:
    """One object on the way from a function to a Tensor, or a constant that an object on the way holds.

    Attributes:
        value: the object.
        parent: the path before it; None for the function and for the leaves of its arguments.
        via: an expression that gives the object, or what holds it under the key, in which ``{}`` stands for
            the parent.
        key: the attribute, the name or the index by which code finds it; None without.
        name: how a user would write it, for messages.
        is_constant: whether nothing else compares the object: the walk does not look into it.
        is_step_of_code: whether the code may take this step, and reach the object before it by some path.
        is_reachable: for the first path of an object: whether the code may reach the object by some path.
    """

    __slots__ = (
        "again", "is_constant", "is_reachable", "is_step_of_code", "key", "name", "names", "parent", "value",
        "via",
    )  # fmt: skip

    def __init__(
        self,
        value: Any,
        parent: CapturedPath | None,
        via: str,
        name: str,
        key: Any = None,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.value = value
        self.parent = parent
        self.via = via
        self.key = key
        self.name = name
        self.again: list[CapturedPath] = []  # further paths of the same object
        self.is_constant = self.is_step_of_code = self.is_reachable = False
        self.names = names  # of a module: the attributes that code names

    @property
    def step(self) -> str:
        """An expression that gives the object, in which ``{}`` stands for the parent."""
        if self.key is None:
            return self.via
        text = repr(self.key).replace("{", "{{").replace("}", "}}")
        return f"{self.via}[{text}]"

    @property
    def name_in_code(self) -> str | None:
        """The name in code that the step needs; None for an item without a name."""
        if self.key is not None:
            return self.key if isinstance(self.key, str) else None
        match = _NAME.search(self.via)
        return match and match[1]

    @property
    def place(self) -> tuple[int, str]:
        """What all paths share that end at one place: the functions of a module share its globals."""
        held: Any = self.parent and self.parent.value
        return id(held.__globals__ if self.via == _GLOBALS else held), self.step

    def go(self, via: str, name: str = "", names: frozenset[str] = frozenset()) -> CapturedPath:
        """Returns the path to what an expression gives for the object, by default of the same name."""
        return CapturedPath(compile_step(via)(self.value), self, via, name or self.name, names=names)

    def list_parents(self) -> Iterator[CapturedPath]:
        """Yields the paths before it, the nearest first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent


class Walk:
    """Everything to which a function leads.

    Args:
        function: the function, method or other callable.
        leaves: of its arguments; Tensors, Generators, and objects and functions of the user are looked at.
        name_leaf: how messages call a leaf.

    Attributes:
        tensors: the path of each Tensor, by its ``id``, the shortest first.
        generators: likewise.
        arrays: likewise those of JAX.
        containers: the paths of objects that hold others.
        stateful: the paths of objects that a read changes, such as iterators.
        children: by the ``id`` of each object that is looked into, the paths one step further.
    """

    def __init__(
        self, function: Any, leaves: list[Any], name_leaf: Callable[[int], str] = "argument leaf {}".format
    ) -> None:
        self.tensors: dict[int, CapturedPath] = {}
        self.generators: dict[int, CapturedPath] = {}
        self.arrays: dict[int, CapturedPath] = {}
        self.containers: dict[int, CapturedPath] = {}
        self.stateful: dict[int, CapturedPath] = {}
        self.children: dict[int, list[CapturedPath]] = defaultdict(list)
        self._ahead: deque[CapturedPath] = deque()
        for number, leaf in enumerate(leaves):
            path = CapturedPath(leaf, None, f"leaves[{number}]", name_leaf(number))
            if isinstance(leaf, (Tensor, Generator, *STATEFUL)) or _is_object(leaf):
                self._meet(path)
        self._meet(CapturedPath(function, None, "function", getattr(function, "__name__", "function")))
        self._meet(CapturedPath(default_generator, None, "default_generator", "the default Generator"))
        keys: deque[CapturedPath] = deque()
        while self._ahead or keys:
            path = (self._ahead or keys).popleft()
            own = self.children[id(path.value)]
            for child in _list_children(path, {child.key for child in own}):
                own.append(child)
                if child.via == KEYS:
                    self.containers[id(child.value)] = child
                    keys.append(child)
                else:
                    self._meet(child)

    def list_paths(self) -> list[CapturedPath]:
        """Returns the first path of each object that is looked into, but for arrays."""
        return [*self.containers.values(), *self.tensors.values(), *self.generators.values()]

    def find(self, value: Any) -> CapturedPath | None:
        """Returns the first path of an object that the walk looks into."""
        number = id(value)
        return self.containers.get(number) or self.tensors.get(number) or self.generators.get(number)

    def _meet(self, path: CapturedPath) -> None:
        value = path.value
        if path.is_constant:
            return
        if isinstance(value, STATEFUL):
            self.stateful.setdefault(id(value), path)
        if isinstance(value, Tensor):
            table = self.tensors
        elif isinstance(value, Generator):
            table = self.generators
        elif isinstance(value, jax.Array):
            table, path.is_constant = self.arrays, True  # it leads to nothing
        elif isinstance(value, _LEAVES) or not _is_walked(value, path):
            path.is_constant = not isinstance(value, types.ModuleType)
            return
        else:
            table = self.containers
        known = table.setdefault(id(value), path)
        if known is not path:
            known.again.append(path)
            if isinstance(value, types.ModuleType) and not path.names <= known.names:
                known.names |= path.names
                self._ahead.append(known)
        elif table is not self.arrays:
            self._ahead.append(path)


def _is_walked(value: Any, path: CapturedPath) -> bool:
    """Whether an object can lead to a user's Tensors.

    Objects of Python's and JAX's classes are not looked into: an event leads to all threads.
    """
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] not in FOREIGN
    if isinstance(value, (type, types.FunctionType)):
        return name_package(value) not in FOREIGN or path.parent is None
    return isinstance(value, _WALKED) or name_package(type(value)) not in _OPAQUE


def _is_object(leaf: Any) -> bool:
    """Whether a leaf of the arguments is a user's function, or an object of a user's class."""
    if isinstance(leaf, (types.FunctionType, types.MethodType)):
        return name_package(leaf) not in FOREIGN
    return name_package(type(leaf)) not in FOREIGN and not isinstance(leaf, (*_LEAVES, jax.Array))


def is_of_others(cls: type) -> bool:
    """Whether a class, other than ``object``, is defined in a package whose code is not looked into."""
    return cls is not object and name_package(cls) in FOREIGN


def name_package(definition: Any) -> str:
    """Returns the package that defines a class or function; empty if that is unknown, as in compiled code."""
    module = definition.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""


def _list_children(path: CapturedPath, listed: Container[Any]) -> Iterator[CapturedPath]:
    """Yields the paths one step further, but for attributes of a module that are listed."""
    for child in _list_steps(path):
        if child.key not in listed or not isinstance(path.value, types.ModuleType):
            yield child
            if isinstance(child.value, enum.Enum):
                cls = type(child.value)
                yield CapturedPath(cls, path, f"{child.step}.__class__", cls.__name__)


def _list_steps(path: CapturedPath) -> Iterator[CapturedPath]:  # noqa: C901  one branch for each kind of object
    value = path.value
    if isinstance(value, Tensor):
        yield from _list_tensor(path, value)
    elif isinstance(value, types.FunctionType):
        yield from _list_function(path, value)
    elif name_package(type(value)) == "oplib" and "__wrapped__" in getattr(value, "__dict__", ()):
        yield path.go("{}.__wrapped__")  # made by jit, and the like
        if "_opoverload" in value.__dict__:
            yield path.go("{}._opoverload")
    elif isinstance(value, OpOverload):
        yield from _list_rules(path, value.record)
    elif isinstance(value, _COLLECTIONS):
        yield from _list_items(path, value)
        if name_package(type(value)) not in FOREIGN:  # a class of the user may have attributes and methods
            if read_attributes(value) is not None:
                yield path.go("{}.__dict__")
            yield from _list_attributes(path, value)
    elif isinstance(value, types.ModuleType):
        file = getattr(value, "__file__", None) or ""
        for name, held in vars(value).items():
            if name in path.names or isinstance(held, SCALARS):
                label = f"{path.name}.{name}"
                yield _make_global(CapturedPath(held, path, "{}.__dict__", label, name, path.names), file)
    elif isinstance(value, type):
        yield from _list_class(path, value)
    elif isinstance(value, types.CellType):
        if (held := read_cell(value)) is not MISSING:
            yield CapturedPath(held, path, "{}.cell_contents", path.name, names=path.names)
    elif steps := next((steps for classes, steps in STEPS if isinstance(value, classes)), None):
        children = [path.go(step, name.format(path.name, value)) for step, name in steps.items()]
        may_be_none = isinstance(value, weakref.ref)  # another reference may take its place
        yield from (child for child in children if may_be_none or child.value is not None)
    elif not isinstance(value, (logging.Logger, logging.LoggerAdapter, OpsNamespaces)):
        yield from _list_attributes(path, value)


def _list_rules(path: CapturedPath, record: Record) -> Iterator[CapturedPath]:
    """Yields the paths of the kernels and rules of an op."""
    for platform, kernel in record.kernels.items():
        yield CapturedPath(kernel, path, f"{RULE}kernels[{platform!r}]", path.name)
    for name in _RULES if record.jvp is None else (*_RULES, "jvp.function"):
        yield path.go(f"{RULE}{name}", f"{path.name}.{name.removeprefix('derivative.')}")


def _list_tensor(path: CapturedPath, tensor: Tensor) -> Iterator[CapturedPath]:
    for attribute, step in (("_grad", "{}._gradient"), ("_root", "{}._root")):
        held = tensor.__dict__.get(attribute)
        if held.__class__ is tuple:
            held = tensor._gradient
        if held is not None:
            yield CapturedPath(held, path, step, f"{path.name}.{attribute.strip('_')}")
    for attribute in ("_backward_hooks", "_post_accumulate_hooks"):
        for number, hook in (tensor.__dict__.get(attribute) or {}).items():
            yield CapturedPath(hook, path, f"{{}}.{attribute}[{number}]", f"a hook of {path.name}")
    for name, held in users_attributes(tensor).items():
        yield CapturedPath(held, path, "{}.__dict__", f"{path.name}.{name}", name)


def _list_class(path: CapturedPath, cls: type) -> Iterator[CapturedPath]:
    for index, base in enumerate(cls.__mro__[1:], 1):
        if _is_walked(base, path):
            yield CapturedPath(base, path, f"{{}}.__mro__[{index}]", base.__name__)
    yield path.go("{}.__class__", f"the class of {cls.__name__}")
    if isinstance(cls, enum.EnumMeta):
        step = "tuple([member._value_ for member in {}._member_map_.values()])"
        yield path.go(step, f"the values of {cls.__name__}")
    for name, item in vars(cls).items():
        if isinstance(item, (*CODE_OF_CLASS, Tensor)) or not name.startswith("__"):
            yield CapturedPath(item, path, "{}.__dict__", f"{path.name}.{name}", name)


def _list_function(path: CapturedPath, function: types.FunctionType) -> Iterator[CapturedPath]:
    names = list_names(function.__code__)
    for index, cell in enumerate(function.__closure__ or ()):
        name = function.__code__.co_freevars[index]
        yield CapturedPath(cell, path, f"{{}}.__closure__[{index}]", name, names=names)
    file = function.__code__.co_filename
    if not is_own[file]:  # written by oplib: its globals come and go with its code
        for step, name in list_lookups(function, names).items():
            yield path.go(step, name, names)
        for name in list_globals(function):
            held = function.__globals__[name]
            yield _make_global(CapturedPath(held, path, _GLOBALS, name, name, names), file)
    if function.__defaults__:
        yield path.go("{}.__defaults__", f"defaults of {path.name}")
    if function.__kwdefaults__:
        yield path.go("tuple({}.__kwdefaults__.items())", f"keyword defaults of {path.name}")
    if function.__dict__:
        yield path.go("{}.__dict__", f"{path.name}.__dict__")
    if (wrapped := function.__dict__.get("__wrapped__")) is not None:
        yield CapturedPath(wrapped, path, "{}.__dict__['__wrapped__']", path.name)


def _make_global(path: CapturedPath, file: str) -> CapturedPath:
    """Makes the global of an installed package a constant: those of pytest lead to all tests."""
    path.is_constant = INSTALLED in file and not isinstance(path.value, types.ModuleType)
    return path


def _list_items(path: CapturedPath, items: Any) -> Iterator[CapturedPath]:
    if isinstance(items, (set, frozenset)):  # its order stays the same while nothing is added or removed
        if not all(isinstance(item, SCALARS) for item in items):
            yield path.go("tuple({})")
        return
    if not isinstance(items, dict):
        for index, item in enumerate(items):
            yield CapturedPath(item, path, "{}", f"{path.name}[{index}]", index)
        return
    for key, item in items.items():
        if type(key) in {str, int}:
            yield CapturedPath(item, path, "{}", f"{path.name}[{key!r}]", key)
    if any(type(key) not in {str, int} for key in items):
        # An expression must not keep a key such as a Tensor alive.
        yield path.go("tuple({}.values())", f"{path.name}.values()")
        if not all(isinstance(key, SCALARS) for key in items):
            yield path.go(KEYS, f"{path.name}.keys()")


def _list_attributes(path: CapturedPath, value: Any) -> Iterator[CapturedPath]:
    for name, held in (read_attributes(value) or {}).items():
        yield CapturedPath(held, path, "{}.__dict__", f"{path.name}.{name}", name)
    for cls in type(value).__mro__:
        for name in list_own_slots(cls):
            held = read_stored(value, name)
            if held is not MISSING:
                yield CapturedPath(held, path, f"{{}}.{name}", f"{path.name}.{name}")
        if _is_walked(cls, path):
            yield CapturedPath(
                cls, path, f"{{}}.__class__.__mro__[{type(value).__mro__.index(cls)}]", cls.__name__
            )
