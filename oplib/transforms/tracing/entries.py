"""Entries: what a container holds, by its keys, indices, attributes or global names."""

from __future__ import annotations

import dis
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from oplib.library.op_objects.overload import OpOverload
from oplib.tensor import Tensor
from oplib.tensor.methods.copying import users_attributes
from oplib.tracebacks import is_own

MISSING = object()
"""Stands for what a container does not hold."""

_LOOK_UPS = frozenset({"globals", "getattr", "vars", "__dict__", "__globals__"})
_EXTENDED, _LOAD_GLOBAL, _LOAD_CONST, _IMPORT = map(
    dis.opmap.__getitem__, ("EXTENDED_ARG", "LOAD_GLOBAL", "LOAD_CONST", "IMPORT_NAME")
)
_OF_GLOBALS = {
    dis.opmap.get(name)
    for name in (
        "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"
    )
}  # fmt: skip
_WITHOUT = (type, types.ModuleType, types.MethodType, tuple, frozenset, functools.partial, OpOverload)


def read_entries(value: Any) -> dict[Any, Any] | None:
    """Returns what a container holds that a user changes; None for other objects.

    A function holds the globals that its code names, a closure cell its content, and a Tensor the attributes
    that users have set.
    """
    if isinstance(value, Tensor):
        return users_attributes(value)
    if isinstance(value, dict):
        return OrderedDict(value)
    if isinstance(value, (list, deque)):
        return dict(enumerate(value))
    if isinstance(value, set):
        return {id(item): item for item in value}
    if isinstance(value, types.FunctionType):
        is_written = is_own[value.__code__.co_filename]  # by oplib: its globals come and go with its code
        return {} if is_written else {name: value.__globals__[name] for name in list_globals(value)}
    if isinstance(value, _WITHOUT):
        return None
    entries = {name: read_stored(value, name) for name in list_slot_names(type(value))}
    if isinstance(value, types.CellType):
        entries = {"cell_contents": read_cell(value)}
    entries |= read_attributes(value) or {}
    return {name: held for name, held in entries.items() if held is not MISSING}


def put_entry(container: Any, key: Any, value: Any) -> None:
    """Lets a container hold a value."""
    mapping = _find_mapping(container, key)
    if mapping is None:
        object.__setattr__(container, key, value)
    else:
        mapping[key] = value


def restore_entry(container: Any, key: Any, before: dict[Any, Any]) -> None:
    """Lets a container hold under a key what it held before."""
    mapping = _find_mapping(container, key)
    if key in before:
        put_entry(container, key, before[key])
    elif mapping is None:
        object.__delattr__(container, key)
    else:
        del mapping[key]


def _find_mapping(container: Any, key: Any) -> Any:
    """Returns what holds an entry of a container; None for a slot, and for the content of a cell."""
    if isinstance(container, (dict, list, deque)):
        return container
    if isinstance(container, types.FunctionType):
        return container.__globals__
    return None if key in list_slot_names(type(container)) else read_attributes(container)


def restore_entries(container: Any, before: dict[Any, Any]) -> None:
    """Lets a container hold what it held before, touching only what differs."""
    if isinstance(container, set):
        before_items = set(before.values())
        container &= before_items
        container |= before_items
        return
    if isinstance(container, list):
        container[:] = before.values()
        return
    if isinstance(container, deque):
        container.clear()
        container.extend(before.values())
        return
    now = read_entries(container) or {}
    for key in {**now, **before}:
        if now.get(key, MISSING) is not before.get(key, MISSING):
            restore_entry(container, key, before)
    if isinstance(container, dict) and [*container] != [*before]:
        for key in before:
            container[key] = container.pop(key)


def read_stored(value: Any, name: str) -> Any:
    """Returns an attribute without asking ``__getattr__``, which may raise any error; or MISSING."""
    kind: Any = type(value)
    try:
        return kind.__getattribute__(value, name)
    except AttributeError:
        return MISSING


def is_stored(value: Any, name: str) -> bool:
    """Whether an object has an attribute without asking ``__getattr__``."""
    return read_stored(value, name) is not MISSING


def read_cell(cell: types.CellType) -> Any:
    """Returns what a closure cell holds, or MISSING."""
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return MISSING


def list_slot_names(cls: type) -> list[str]:
    """Returns the names of the slots of a class and its bases."""
    return [name for base in cls.__mro__ for name in list_own_slots(base)]


def list_own_slots(cls: type) -> Iterator[str]:
    """Yields the names of the slots that one class adds."""
    slots = cls.__dict__.get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if not name.startswith("__"):
            yield name
        elif not name.endswith("__"):
            yield f"_{cls.__name__.lstrip('_')}{name}"  # as Python writes private names


def list_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from list_codes(constant)


def list_names(code: types.CodeType) -> frozenset[str]:
    """Returns the names of globals and attributes in code and in the functions inside it.

    Strings are among them if the code may look up names with them.
    """
    codes = list(list_codes(code))
    return frozenset[str]().union(_list_keys(codes), *[inner.co_names for inner in codes])


def list_global_names(code: types.CodeType) -> frozenset[str]:
    """Returns the names that code and the functions inside it may look up among the globals.

    An attribute may have the name of a global that the code does not read: a script may call
    ``optimizer.step()`` in a loop over ``step``.
    """
    codes = list(list_codes(code))
    return frozenset[str]().union(_list_keys(codes), *map(_list_loaded, codes))


def _list_keys(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Returns the strings in code if it may look up names with them."""
    if all(_LOOK_UPS.isdisjoint(code.co_names) for code in codes):
        return frozenset()
    return frozenset(held for code in codes for held in code.co_consts if isinstance(held, str))


def list_imports(code: types.CodeType) -> Iterator[tuple[str, int]]:
    """Yields the names of modules that code imports, with the number of dots before each."""
    operations = list_operations(code) if _IMPORT in code.co_code[::2] else []
    for (load, level), (number, argument) in zip(operations, operations[2:], strict=False):
        if number == _IMPORT:
            yield code.co_names[argument], code.co_consts[level] if load == _LOAD_CONST else level


def list_operations(code: types.CodeType) -> list[tuple[int, int]]:
    """Returns the operations of code, as numbers with their arguments."""
    operations: list[tuple[int, int]] = []
    index = 0
    for number, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        index = index << 8 | argument
        if number == _EXTENDED:
            continue
        if number:  # 0 stands between operations, for the interpreter
            operations.append((number, index))
        index = 0
    return operations


def _list_loaded(code: types.CodeType) -> Iterator[str]:
    """Yields the names of globals that code reads or sets."""
    for number, index in list_operations(code):
        if number in _OF_GLOBALS:  # the lowest bit of LOAD_GLOBAL says whether the code calls what it loads
            yield code.co_names[index >> 1 if number == _LOAD_GLOBAL else index]


def list_globals(function: types.FunctionType) -> list[str]:
    """Returns the names of globals that exist, and that a function or the functions inside it may read."""
    if may_read_all_globals(list_names(function.__code__)):
        return sorted(name for name in function.__globals__ if not name.startswith("__"))
    return sorted(list_global_names(function.__code__) & function.__globals__.keys())


def may_read_all_globals(names: frozenset[str]) -> bool:
    """Whether code with these names may compute the name of a global."""
    return "globals" in names


def read_attributes(value: Any) -> dict[str, Any] | None:
    """Returns the dictionary of the attributes of an object; None without one."""
    attributes = read_stored(value, "__dict__")
    return attributes if isinstance(attributes, dict) else None
