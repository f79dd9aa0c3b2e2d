"""Paths: how a function leads to the Tensors that it captures.

A walk starts at a function and at the leaves of its arguments. It goes through closure cells, globals that
the code names, defaults, attributes, items, bound objects and the functions of classes, breadth first. It
keeps a :class:`CapturedPath` for every object: the object, the path before it, and the step between the two.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import logging
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import jax
import numpy as np

from oplib.library.objects.namespace import OpOverloadPacket, OpsNamespaces
from oplib.library.objects.overload import OpOverload
from oplib.library.records.record import Record
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
from .lookups import FOREIGN, INSTALLED, list_lookups
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

KEYS = "tuple({}.keys())"
"""The step to the keys of a dictionary that are objects. It is gone last."""

CODE_OF_CLASS = (types.FunctionType, property, staticmethod, classmethod)
"""What a class holds that is code, and that is compared as one object."""

_COLLECTIONS = (dict, list, tuple, deque, set, frozenset)
GETTERS = (attrgetter, itemgetter, methodcaller)
REFERENCES = (
    types.BuiltinFunctionType, types.CellType, types.MappingProxyType, types.MethodWrapperType, weakref.ref,
    contextvars.ContextVar, staticmethod, classmethod, type({}.keys()), type({}.values()), type({}.items()),
    *GETTERS,
)  # fmt: skip
"""Objects of Python that lead to one other."""

_WALKED = (*_COLLECTIONS, functools.partial, logging.Logger, logging.LoggerAdapter)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_LEAVES = (*SCALARS, *_DESCRIPTORS, np.ndarray, range, slice, type(Ellipsis))


class CapturedPath:
    """One object on the way from a function to a Tensor.

    Attributes:
        value: the object.
        parent: the path before it; None for the function and for the leaves of its arguments.
        step: an expression that gives the object, in which ``{}`` stands for the parent.
        name: how a user would write it, for messages.
    """

    __slots__ = ("again", "name", "names", "parent", "step", "value")

    def __init__(
        self,
        value: Any,
        parent: CapturedPath | None,
        step: str,
        name: str,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.value = value
        self.parent = parent
        self.step = step
        self.name = name
        self.again: list[CapturedPath] = []  # further paths of the same object
        self.names = names  # of a module: the attributes that code names

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
    """

    def __init__(
        self, function: Any, leaves: list[Any], name_leaf: Callable[[int], str] = "argument leaf {}".format
    ) -> None:
        self.tensors: dict[int, CapturedPath] = {}
        self.generators: dict[int, CapturedPath] = {}
        self.arrays: dict[int, CapturedPath] = {}
        self.containers: dict[int, CapturedPath] = {}
        self.stateful: dict[int, CapturedPath] = {}
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
            for child in _list_children(path):
                if child.step == KEYS:
                    self.containers[id(child.value)] = child
                    keys.append(child)
                else:
                    self._meet(child)

    def _meet(self, path: CapturedPath) -> None:
        value = path.value
        if isinstance(value, STATEFUL):
            self.stateful.setdefault(id(value), path)
        if isinstance(value, Tensor):
            table = self.tensors
        elif isinstance(value, Generator):
            table = self.generators
        elif isinstance(value, jax.Array):
            table = self.arrays  # it leads to nothing
        elif isinstance(value, enum.Enum):
            self._meet(CapturedPath(type(value), path.parent, f"{path.step}.__class__", type(value).__name__))
            return
        elif isinstance(value, _LEAVES) or not _is_walked(value, path):
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
        is_installed = INSTALLED in (getattr(value, "__file__", None) or "")
        return value.__name__.partition(".")[0] not in FOREIGN and not is_installed
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


def _list_children(path: CapturedPath) -> Iterator[CapturedPath]:  # noqa: C901  one branch for each kind of object
    value = path.value
    if isinstance(value, Tensor):
        yield from _list_tensor(path, value)
    elif isinstance(value, types.FunctionType):
        yield from _list_function(path, value)
    elif isinstance(value, types.MethodType):
        yield CapturedPath(value.__self__, path, "{}.__self__", "self")
        yield CapturedPath(value.__func__, path, "{}.__func__", path.name)
    elif isinstance(value, functools.partial):
        yield CapturedPath(value.func, path, "{}.func", f"{path.name}.func")
        yield CapturedPath(value.args, path, "{}.args", f"{path.name}.args")
        items = tuple(value.keywords.items())
        yield CapturedPath(items, path, "tuple({}.keywords.items())", f"{path.name}.keywords")
    elif name_package(type(value)) == "oplib" and "__wrapped__" in getattr(value, "__dict__", ()):
        yield CapturedPath(value.__wrapped__, path, "{}.__wrapped__", path.name)  # made by jit, and the like
        if "_opoverload" in value.__dict__:
            yield CapturedPath(value._opoverload, path, "{}._opoverload", path.name)
    elif isinstance(value, OpOverloadPacket):
        yield CapturedPath(value._overloads, path, "{}._overloads", path.name)
    elif isinstance(value, OpOverload):
        yield from _list_rules(path, value.record)
    elif isinstance(value, _COLLECTIONS):
        yield from _list_items(path, value)
        if name_package(type(value)) not in FOREIGN:  # a class of the user may have attributes and methods
            yield CapturedPath(read_attributes(value), path, "{}.__dict__", path.name)
            yield from _list_attributes(path, value)
    elif isinstance(value, types.ModuleType):
        for name in path.names & vars(value).keys():
            yield CapturedPath(
                vars(value)[name], path, f"{{}}.__dict__[{name!r}]", f"{path.name}.{name}", path.names
            )
    elif isinstance(value, type):
        yield from _list_class(path, value)
    elif isinstance(value, REFERENCES):
        yield from _list_referent(path, value)
    elif not isinstance(value, (logging.Logger, logging.LoggerAdapter, OpsNamespaces)):
        yield from _list_attributes(path, value)


def _list_rules(path: CapturedPath, record: Record) -> Iterator[CapturedPath]:
    """Yields the paths of the kernels and rules of an op."""
    for platform, kernel in record.kernels.items():
        yield CapturedPath(kernel, path, f"{RULE}kernels[{platform!r}]", path.name)
    for name in _RULES if record.jvp is None else (*_RULES, "jvp.function"):
        label = f"{path.name}.{name.removeprefix('derivative.')}"
        yield CapturedPath(attrgetter(name)(record), path, f"{RULE}{name}", label)


def _list_referent(path: CapturedPath, value: Any) -> Iterator[CapturedPath]:
    """Yields the path of the object that a cell, reference, proxy or bound method of Python leads to."""
    if isinstance(value, types.CellType):
        if (held := read_cell(value)) is not MISSING:
            yield CapturedPath(held, path, "{}.cell_contents", path.name, path.names)
    elif isinstance(value, weakref.ref):
        yield CapturedPath(value(), path, "{}()", path.name)
    elif isinstance(value, types.MappingProxyType):
        yield CapturedPath(dict(value), path, "dict({})", path.name)
    elif isinstance(value, contextvars.ContextVar):
        yield CapturedPath((value.get(MISSING),), path, "tuple([{}.get(MISSING)])", f"{value.name}.get()")
    elif isinstance(value, GETTERS):
        yield CapturedPath(value.__reduce__(), path, "tuple({}.__reduce__())", path.name)
    else:
        attribute = next(name for name in ("__func__", "mapping", "__self__") if hasattr(value, name))
        yield CapturedPath(getattr(value, attribute), path, f"{{}}.{attribute}", path.name)


def _list_tensor(path: CapturedPath, tensor: Tensor) -> Iterator[CapturedPath]:
    for attribute in ("_grad", "_root"):
        if (held := tensor.__dict__.get(attribute)) is not None:
            yield CapturedPath(held, path, f"{{}}.{attribute}", f"{path.name}.{attribute.strip('_')}")
    for attribute in ("_backward_hooks", "_post_accumulate_hooks"):
        for number, hook in (tensor.__dict__.get(attribute) or {}).items():
            yield CapturedPath(hook, path, f"{{}}.{attribute}[{number}]", f"a hook of {path.name}")
    for name, held in users_attributes(tensor).items():
        yield CapturedPath(held, path, f"{{}}.__dict__[{name!r}]", f"{path.name}.{name}")


def _list_class(path: CapturedPath, cls: type) -> Iterator[CapturedPath]:
    for index, base in enumerate(cls.__mro__[1:], 1):
        if _is_walked(base, path):
            yield CapturedPath(base, path, f"{{}}.__mro__[{index}]", base.__name__)
    yield CapturedPath(type(cls), path, "{}.__class__", f"the class of {cls.__name__}")
    if isinstance(cls, enum.EnumMeta):
        step = "tuple([member._value_ for member in {}._member_map_.values()])"
        values = tuple([member._value_ for member in cls._member_map_.values()])
        yield CapturedPath(values, path, step, f"the values of {cls.__name__}")
    for name, item in vars(cls).items():
        if isinstance(item, (*CODE_OF_CLASS, functools.cached_property, functools.partialmethod, Tensor)):
            for function, step in _unwrap(item):
                text = step.format(f"{{}}.__dict__[{name!r}]")
                yield CapturedPath(function, path, text, f"{path.name}.{name}")
        elif not name.startswith("__"):
            yield CapturedPath(item, path, f"{{}}.__dict__[{name!r}]", f"{path.name}.{name}")


def _unwrap(item: Any) -> Iterator[tuple[Any, str]]:
    """Yields the functions of an item of a class, and the steps to them."""
    names = [name for name in ("fget", "fset", "fdel", "__func__", "func") if hasattr(item, name)]
    if not names or isinstance(item, (types.FunctionType, Tensor)):
        yield item, "{}"
        return
    for name in names:
        yield getattr(item, name), f"{{}}.{name}"


def _list_function(path: CapturedPath, function: types.FunctionType) -> Iterator[CapturedPath]:
    names = list_names(function.__code__)
    for index, cell in enumerate(function.__closure__ or ()):
        name = function.__code__.co_freevars[index]
        yield CapturedPath(cell, path, f"{{}}.__closure__[{index}]", name, names)
    # Globals of installed packages may lead to everything: those of pytest lead to all tests.
    file = function.__code__.co_filename
    if INSTALLED not in file and not is_own[file]:
        for value, step, name in list_lookups(function, names):
            yield CapturedPath(value, path, step, name, names)
        for name in list_globals(function):
            yield CapturedPath(function.__globals__[name], path, f"{{}}.__globals__[{name!r}]", name, names)
    if function.__defaults__:
        yield CapturedPath(function.__defaults__, path, "{}.__defaults__", f"defaults of {path.name}")
    if function.__kwdefaults__:
        items, step = tuple(function.__kwdefaults__.items()), "tuple({}.__kwdefaults__.items())"
        yield CapturedPath(items, path, step, f"keyword defaults of {path.name}")
    if function.__dict__:
        yield CapturedPath(function.__dict__, path, "{}.__dict__", f"{path.name}.__dict__")
    if (wrapped := function.__dict__.get("__wrapped__")) is not None:
        yield CapturedPath(wrapped, path, "{}.__dict__['__wrapped__']", path.name)


def _list_items(path: CapturedPath, items: Any) -> Iterator[CapturedPath]:
    if isinstance(items, (set, frozenset)):  # its order stays the same while nothing is added or removed
        if not all(isinstance(item, SCALARS) for item in items):
            yield CapturedPath(tuple(items), path, "tuple({})", path.name)
        return
    if not isinstance(items, dict):
        for index, item in enumerate(items):
            yield CapturedPath(item, path, f"{{}}[{index}]", f"{path.name}[{index}]")
        return
    if any(type(key) not in {str, int} for key in items):
        # An expression must not keep a key such as a Tensor alive.
        yield CapturedPath(tuple(items.values()), path, "tuple({}.values())", f"{path.name}.values()")
        if not all(isinstance(key, SCALARS) for key in items):
            yield CapturedPath(tuple(items), path, KEYS, f"{path.name}.keys()")
        return
    for key, item in items.items():
        text = repr(key).replace("{", "{{").replace("}", "}}")
        yield CapturedPath(item, path, f"{{}}[{text}]", f"{path.name}[{key!r}]")


def _list_attributes(path: CapturedPath, value: Any) -> Iterator[CapturedPath]:
    for name, held in (read_attributes(value) or {}).items():
        yield CapturedPath(held, path, f"{{}}.__dict__[{name!r}]", f"{path.name}.{name}")
    for cls in type(value).__mro__:
        for name in list_own_slots(cls):
            held = read_stored(value, name)
            if held is not MISSING:
                yield CapturedPath(held, path, f"{{}}.{name}", f"{path.name}.{name}")
        if _is_walked(cls, path):
            yield CapturedPath(
                cls, path, f"{{}}.__class__.__mro__[{type(value).__mro__.index(cls)}]", cls.__name__
            )
