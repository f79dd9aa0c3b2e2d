"""What a function reaches: the Tensors it may read, and everything else on which its trace may depend.

A program is used again if its functions reach the same things. Functions are compared by their code and by
what their closures, defaults and globals hold, objects by their class and attributes. Tensors are operands.
So a lambda that is made again at each call compiles nothing again.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from oplib.tensor import Tensor

LIMIT = 20_000  # objects; whoever reaches more is traced at each call
_VALUES = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic)
_INSTALLED = "site-packages"  # what functions there read of their globals is not looked for
_LIBRARIES = frozenset({"jax", "jaxlib", "numpy", "oplib", "optax", "optree", *sys.stdlib_module_names})


class TooMuchError(Exception):
    """The function reaches more than can be compared."""


class Identity:
    """Compares an object by identity, without keeping it alive; a part of a library, which stays, is kept."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._reference: Callable[[], object] = weakref.ref(value)
        except TypeError:
            if not _is_library(type(value).__module__):
                raise TooMuchError from None
            self._reference = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity):
            return False
        mine = self._reference()
        return mine is not None and mine is other._reference()


class Reach:
    """What some functions reach.

    Args:
        functions: where to begin.

    Attributes:
        tensors: the Tensors, in the order in which they are found.
        arrays: the arrays of JAX.
        signature: hashable; equal for functions that reach the same but for the values of Tensors and arrays.

    Raises:
        TooMuchError: something cannot be compared.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self.tensors: list[Tensor] = []
        self.arrays: list[Any] = []
        self._parts: list[Any] = []
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # bound methods and the like are made when they are asked for
        self._names: set[str] = set()
        for function in functions:
            self._visit(function)
        self.signature = tuple(self._parts)

    def _visit(self, value: Any) -> None:
        if isinstance(value, _VALUES):
            self._parts.append((type(value), value.hex() if isinstance(value, float) else value))
            return
        place = self._places.get(id(value))
        if place is not None:
            self._parts.append(place)
            return
        self._places[id(value)] = len(self._places)
        self._kept.append(value)
        if len(self._kept) > LIMIT:
            raise TooMuchError
        self._parts.append(Identity(type(value)))
        self._look_into(value)

    def _look_into(self, value: Any) -> None:
        """Visits what a value is made of."""
        if isinstance(value, Tensor):
            self._note_tensor(value)
        elif isinstance(value, jax.Array):
            self.arrays.append(value)
            self._parts.append(jax.typeof(value))
        elif isinstance(value, types.FunctionType):
            self._look_into_function(value)
        elif isinstance(value, types.MethodType):
            self._visit_all((value.__func__, value.__self__))
        elif isinstance(value, functools.partial):
            self._visit_all((value.func, *value.args, *value.keywords, *value.keywords.values()))
        elif isinstance(value, dict):
            self._visit_all((len(value), *value.keys(), *value.values()))
        elif isinstance(value, (list, tuple, deque)):
            self._visit_all((len(value), *value))
        elif isinstance(value, (set, frozenset)):
            self._note_set(value)
        elif isinstance(value, (type, types.ModuleType)) or _is_of_library(type(value)):
            self._parts.append(Identity(value))
        else:
            self._look_into_object(value)

    def _visit_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._visit(value)

    def _note_set(self, members: Any) -> None:
        if not all(isinstance(member, _VALUES) for member in members):
            raise TooMuchError  # they have no order
        self._parts.append(frozenset(members))

    def _note_tensor(self, tensor: Tensor) -> None:
        storage: Any = tensor._storage
        owner = storage.owner
        self.tensors.append(tensor)
        shared = self._places.setdefault(id(owner), len(self._places))
        kind = jax.typeof(storage.array)  # a view is read here, outside of the trace
        self._parts.append((kind, tensor._requires_grad, shared))

    def _look_into_function(self, function: types.FunctionType) -> None:
        code = function.__code__
        self._parts.append(Identity(code))
        for cell in function.__closure__ or ():
            try:
                self._visit(cell.cell_contents)
            except ValueError:
                self._parts.append(ValueError)  # an empty cell
        self._visit_all(function.__defaults__ or ())
        self._visit_all((function.__kwdefaults__ or {}).values())
        if _is_library(function.__module__) or _INSTALLED in code.co_filename:
            return
        names = _find_names(code)
        for name in names:
            if name in function.__globals__:
                self._visit_global(function.__globals__[name], names)

    def _visit_global(self, value: Any, names: tuple[str, ...]) -> None:
        """Visits a global; of a module that is no library, what has one of the names."""
        if not isinstance(value, types.ModuleType):
            self._visit(value)
        elif not _is_library(value.__name__):
            members = vars(value)
            self._visit_all(
                members[name] for name in names if not isinstance(members.get(name), types.ModuleType | None)
            )

    def _look_into_object(self, value: Any) -> None:
        """Visits attributes, and what the methods of the class read of their globals."""
        attributes = getattr(value, "__dict__", None)
        slots = [name for cls in type(value).__mro__ for name in _listed(cls.__dict__.get("__slots__", ()))]
        if attributes is None and not slots:
            self._parts.append(Identity(value))
            return
        for name, attribute in (attributes or {}).items():
            self._parts.append(name)
            self._visit(attribute)
        for name in slots:
            if name not in ("__weakref__", "__dict__") and hasattr(value, name):
                self._visit(getattr(value, name))
        for cls in type(value).__mro__:
            if not _is_library(cls.__module__) and id(cls) not in self._places:
                self._places[id(cls)] = len(self._places)
                self._visit_all(_find_functions(cls))


def _listed(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _is_library(module: object) -> bool:
    """Tells it from ``__module__``, which is no string for some compiled classes."""
    return not isinstance(module, str) or module.partition(".")[0] in _LIBRARIES


def _is_of_library(cls: type) -> bool:
    """Whether a class is one whose instances are compared by identity."""
    return _is_library(cls.__module__) and not issubclass(cls, types.SimpleNamespace)


@functools.lru_cache(maxsize=4096)
def _find_names(code: types.CodeType) -> tuple[str, ...]:
    """The names of globals and attributes that a function reads, and functions inside of it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *(name for one in inner for name in _find_names(one)))))


def _find_functions(cls: type) -> list[Any]:
    """The functions in the body of a class."""
    members = [getattr(member, "__func__", getattr(member, "fget", member)) for member in vars(cls).values()]
    return [member for member in members if isinstance(member, types.FunctionType)]
