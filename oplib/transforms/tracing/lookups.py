"""Lookups: what code asks for by a name that stands in it: modules, ops, environment, loggers."""

from __future__ import annotations

import logging
import os
import sys
import types
from collections.abc import Iterable
from typing import Any

from oplib.library.op_objects.namespace import find_packet, ops

from .entries import list_codes, list_imports

ASKED_LEVELS = frozenset({"disabled", "getEffectiveLevel", "isEnabledFor", "level"})
FOREIGN = sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "oplib", "optree", "torch"}
"""Packages whose code is not looked into."""

INSTALLED = f"{os.sep}site-packages{os.sep}"
"""A part of the names of the files of installed packages."""

_ASKED_MODULES = frozenset({"__import__", "import_module", "modules"})
_ASKED_ENVIRONMENT = frozenset({"environ", "getenv"})
_ENVIRONMENT = (os.environ, os.getenv)


def list_lookups(function: types.FunctionType, names: frozenset[str]) -> dict[str, str]:
    """Returns what the code of a function looks up by the names in it: expressions, each with a name.

    Everything but a module or an op is a tuple, whose items are compared.
    """
    codes = list(list_codes(function.__code__))
    strings = {constant for code in codes for constant in code.co_consts if isinstance(constant, str)}
    modules = _list_modules(function, codes, strings if _ASKED_MODULES & names else ())
    absent = sorted(modules - sys.modules.keys())
    found = {f"modules[{name!r}]": name for name in sorted(modules - set(absent))}
    if absent:  # the function may load them
        found[f"tuple(read_loaded({absent}))"] = f"sys.modules of {absent}"
    words = sorted(filter(str.isidentifier, strings))
    held = list(map(function.__globals__.get, names))
    if words and (
        _ASKED_ENVIRONMENT & names or any(item is other for item in _ENVIRONMENT for other in held)
    ):
        found[f"tuple(read_environment({words}))"] = f"os.environ of {words}"
    is_computed = {"ops", "getattr"} <= names  # any op of the user may be meant
    spaces = [vars(ops)[name] for name in vars(ops).keys() - {"oplib"} if is_computed or name in names]
    packets = [getattr(space, op) for space in spaces for op in space if is_computed or op in names]
    found |= {f"find_packet({packet._qualified_op_name!r})": packet._qualified_op_name for packet in packets}
    if "getLogger" in names and ASKED_LEVELS & names:
        known = sorted({"", function.__module__ or "", *filter(_is_dotted, strings)})
        found[f"tuple(read_levels({known}))"] = f"the levels of loggers {known}"
    return found


def read_loaded(names: Iterable[str]) -> tuple[bool, ...]:
    """Returns which modules are loaded."""
    return tuple([name in sys.modules for name in names])


def read_environment(names: Iterable[str]) -> tuple[str | None, ...]:
    """Returns what variables of the environment are set to."""
    return tuple(map(os.environ.get, names))


def read_levels(names: Iterable[str]) -> tuple[str | None, ...]:
    """Returns what loggers let through, by their names; None for one that does not exist."""
    existing = {"", *logging.root.manager.loggerDict}
    return tuple([read_level(logging.getLogger(name)) if name in existing else None for name in names])


def read_level(logger: Any) -> str:
    """Returns what a logger lets through, as text."""
    while isinstance(logger, logging.LoggerAdapter):
        logger = logger.logger
    below = logger.manager.disable
    return f"{logger.level}, effective {logger.getEffectiveLevel()}, disabled {logger.disabled}, {below}"


def _list_modules(
    function: types.FunctionType, codes: Iterable[types.CodeType], strings: Iterable[str]
) -> set[str]:
    """Returns the names of modules that code imports, and of those that it may look up by strings."""
    package = function.__globals__.get("__package__") or ""
    found = {name for name in strings if name in sys.modules}
    for name, level in [operand for code in codes for operand in list_imports(code)]:
        parents = package.split(".")
        held = parents[: len(parents) - level + 1] if level else []
        full = ".".join([*held, *filter(None, [name])])
        found |= {full, full.partition(".")[0]}  # the code may go to a module from the package
    return {name for name in found if name.partition(".")[0] not in FOREIGN}


def _is_dotted(text: str) -> bool:
    return all(map(str.isidentifier, text.split(".")))


LOOKUPS = (find_packet, read_environment, read_level, read_levels, read_loaded)
"""The functions of the expressions."""
