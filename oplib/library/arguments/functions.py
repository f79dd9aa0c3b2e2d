"""Functions as arguments: the traced values that a function closes over become operands of the call.

Kernels and rules get a function as a ``jax.tree_util.Partial``, whose leaves are these values. The function
in it is a copy with a placeholder for each of them. So a call refers to no traced value that is not an
operand, and every transformation of JAX finds them all. The idea is that of ``jax.closure_convert``, but the
values are found in the closure itself: a rule may call the function on arguments of any shape, and some
functions are called by rules only.
"""

from __future__ import annotations

import copy
import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.tree_util import Partial

from oplib.errors import ArgumentError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor, needs_grad

Jitted = type(jax.jit(lambda: None))
_PLAIN = (FunctionType, MethodType, BuiltinFunctionType, functools.partial, Jitted, np.ufunc)
_CLOSED = (type, ModuleType, Tensor, jax.Array, np.ndarray, str, bytes)
"""Objects in which no search looks for traced values."""


def is_function(value: object, *, declared: bool) -> bool:
    """Tells whether a value is a function; if a callable is declared, every object with a call is one."""
    return isinstance(value, _PLAIN) or (declared and callable(value) and not isinstance(value, type))


def is_lasting(function: Any) -> bool:
    """Tells whether compiled code may hold a function: its module does too, or it is compared by value."""
    if isinstance(function, Partial):
        return is_lasting(function.func)
    is_object = not isinstance(function, _PLAIN) and not hasattr(function, "__wrapped__")
    return is_object or _is_found(function)


def _is_found(function: Any) -> bool:
    """Tells whether a function is found in its module by its name, and so closes over nothing."""
    value: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split("."):
        value = getattr(value, name, None)
    return value is function


def open_function(function: AnyFunction, subject: str) -> Partial:
    """Returns a function as a pytree, whose leaves are the traced values that it closes over.

    Args:
        function: the function, which may be a ``Partial``.
        subject: the op and its argument, for errors.

    Raises:
        ArgumentError: the function closes over a Tensor with a history.
    """
    outer, arguments, keywords = function, (), {}
    if isinstance(function, Partial):
        outer, arguments, keywords = function.func, function.args, function.keywords
    if _is_found(outer):
        return Partial(outer, *arguments, **keywords)
    search = _ClosureSearch(outer, Tracer)
    search.refuse_history(subject)
    if not search.leaves:
        return Partial(outer, *arguments, **keywords)
    placeholders = {id(value): _Placeholder(position) for position, value in enumerate(search.leaves)}
    opened = OpenFunction(search.fill(placeholders.__getitem__), len(search.leaves))
    return Partial(opened, *search.leaves, *arguments, **keywords)


class _Placeholder:
    """Stands in a function for the value at this position."""

    def __init__(self, position: int) -> None:
        self.position = position


class OpenFunction:
    """A function of the values that it closed over, and of its own arguments.

    Args:
        function: the function, with placeholders.
        count: the number of values.
    """

    def __init__(self, function: AnyFunction, count: int) -> None:
        self._function = function
        self._count = count

    def __repr__(self) -> str:
        return repr(self._function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the function; the first arguments are the values."""
        values, rest = arguments[: self._count], arguments[self._count :]
        search = _ClosureSearch(self._function, _Placeholder)
        values_by_id = {id(placeholder): values[placeholder.position] for placeholder in search.leaves}
        return search.fill(values_by_id.__getitem__)(*rest, **keywords)


class _ClosureSearch:
    """The objects behind a function that lead to values of a class.

    Args:
        function: where the search begins.
        wanted: the class.

    Attributes:
        leaves: the values that were found, each once.
    """

    def __init__(self, function: AnyFunction, wanted: type) -> None:
        self._root = function
        self._objects: dict[int, Any] = {}  # also keeps the objects alive, so that no id is given twice
        self._parents: dict[int, list[int]] = {}
        self.leaves: list[Any] = []
        pending: list[Any] = [function]
        while pending:
            value = pending.pop()
            if id(value) in self._objects:
                continue
            self._objects[id(value)] = value
            if isinstance(value, wanted):
                self.leaves.append(value)
                continue
            for part in _list_parts(value):
                self._parents.setdefault(id(part), []).append(id(value))
                pending.append(part)
        self._leading: set[int] = set()
        reached = list(map(id, self.leaves))
        while reached:
            key = reached.pop()
            if key not in self._leading:
                self._leading.add(key)
                reached.extend(self._parents.get(key, ()))

    def refuse_history(self, subject: str) -> None:
        """Raises ArgumentError for a Tensor with a history in a variable or argument of a function.

        The variables are those of enclosing functions, and the global ones that the code reads. A Tensor that
        an object holds may be one that the function never reads. If a compiled kernel reads it, that raises.
        """
        objects = self._objects.values() if modes.grad_enabled else ()
        for tensor in filter(needs_grad, objects):
            holders = [id(tensor)]
            for key in holders:  # the list grows
                holder = self._objects[key]
                if isinstance(holder, (CellType, FunctionType, functools.partial)):
                    raise _refuse_tensor(subject, tensor)
                if holder is tensor or isinstance(holder, (dict, list, tuple)):
                    holders.extend(parent for parent in self._parents[key] if parent not in holders)
        for function in objects:
            if isinstance(function, FunctionType):
                for tensor in filter(needs_grad, _read_globals(function)):
                    raise _refuse_tensor(subject, tensor)

    def fill(self, replace: Callable[[int], Any]) -> Any:
        """Returns a copy of the function; ``replace`` gives the new value for the id of an old one."""
        made: dict[int, Any] = {id(leaf): replace(id(leaf)) for leaf in self.leaves}

        def convert(value: Any) -> Any:
            key = id(value)
            if key not in self._leading:
                return value
            if key not in made:
                made[key] = _copy(value, convert, functools.partial(made.__setitem__, key))
            return made[key]

        return convert(self._root)


def _refuse_tensor(subject: str, tensor: Any) -> ArgumentError:
    return ArgumentError(
        f"{subject} is a function that closes over a Tensor with a history. Got {describe(tensor)}, whose "
        "gradient would be lost. Pass the Tensor as an argument of the op, or as a part of the function: "
        "jax.tree_util.Partial(lambda w, x: ..., w)."
    )


def _read_globals(function: FunctionType) -> Iterable[Any]:
    """Returns the Tensors among the global variables that a function reads."""
    code, variables = function.__code__, function.__globals__
    if not any(isinstance(variables.get(name), Tensor) for name in code.co_names):  # attributes too
        return ()
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return [value for name in names if isinstance(value := variables.get(name), Tensor)]


def _list_parts(value: Any) -> Iterable[Any]:
    """Returns the objects that an object refers to, as far as a copy of it could refer to others."""
    if isinstance(value, FunctionType):
        return [
            *(value.__closure__ or ()),
            *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values(),
        ]
    if isinstance(value, CellType):
        return _read_cell(value)
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, Jitted):
        return (inspect.unwrap(value, stop=lambda inner: not isinstance(inner, Jitted)),)
    if isinstance(value, _CLOSED) or hasattr(value, "__copy__"):
        return ()
    return list(vars(value).values()) if hasattr(value, "__dict__") else _take_apart(value)[0]


def _take_apart(node: Any) -> tuple[list[Any], Any]:
    """Returns the children and the structure of a pytree without attributes, as ``jax.vjp`` returns one."""
    children, structure = jax.tree_util.tree_flatten(node, is_leaf=lambda child: child is not node)
    return ([], None) if jax.tree_util.treedef_is_leaf(structure) else (children, structure)


def _read_cell(cell: CellType) -> Sequence[Any]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing is assigned to the variable yet
        return ()


def _copy(value: Any, convert: AnyFunction, register: Callable[[Any], None]) -> Any:
    """Copies an object with converted parts. What can refer to itself is registered before its parts."""
    if isinstance(value, FunctionType):
        cells = tuple(map(convert, value.__closure__ or ()))
        made = FunctionType(value.__code__, value.__globals__, value.__name__, None, cells)
        made.__defaults__ = value.__defaults__ and tuple(map(convert, value.__defaults__))
        made.__kwdefaults__ = value.__kwdefaults__ and {
            name: convert(default) for name, default in value.__kwdefaults__.items()
        }
        made.__qualname__ = value.__qualname__
        return made
    if isinstance(value, CellType):
        register(made := CellType())
        made.cell_contents = convert(value.cell_contents)
        return made
    if isinstance(value, MethodType):
        return MethodType(convert(value.__func__), convert(value.__self__))
    if isinstance(value, functools.partial):
        keywords = {name: convert(part) for name, part in value.keywords.items()}
        return type(value)(convert(value.func), *map(convert, value.args), **keywords)
    if isinstance(value, dict):
        register(made := copy.copy(value))
        made.update((key, convert(part)) for key, part in value.items())
        return made
    if isinstance(value, list):
        register(made := copy.copy(value))
        made[:] = map(convert, value)
        return made
    if isinstance(value, (tuple, set, frozenset)):
        make = getattr(value, "_make", type(value))
        return make(map(convert, value))
    if isinstance(value, Jitted):  # it is called in a trace, where a jit only sets a boundary
        return convert(*_list_parts(value))
    if not hasattr(value, "__dict__"):
        children, structure = _take_apart(value)
        return jax.tree_util.tree_unflatten(structure, map(convert, children))
    register(made := copy.copy(value))
    vars(made).update((name, convert(part)) for name, part in vars(value).items())
    return made
