"""The stubs of the modules that show ops: the root, ``linalg``, ``fft``, ``special`` and ``nn.functional``.

A type checker cannot follow their ``__getattr__``, and at the root it takes the folder ``tensor`` for the
function of that name.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

from oplib.builtin.functions import registry
from oplib.builtin.functions.registry import FUNCTIONS, NETWORKS
from oplib.builtin.rows.parameters import list_parameters
from tools.stub_forms import declare
from tools.stub_results import list_named_results

_PACKAGE = Path(registry.__file__).parents[2]
_MADE = "# Made from the tables of oplib/builtin by `make generate`.\n"
_HEAD = f"""{_MADE}from typing import Any, TypeVar, overload

from jax import Array
from oplib.tensor import Tensor
"""
_EITHER = '_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)'
# The prefix of the ops of each submodule, by which their types are found.
_PREFIXES = {"linalg": "linalg_", "fft": "fft_", "special": "special_", "nn.functional": ""}
_OPS = {
    "nn.functional": {name: op for name, (_, op) in NETWORKS.keys_by_name.items()},
    "special": {"modified_bessel_i1": "special_i1"},
}


def list_submodule_stubs() -> dict[Path, str]:
    """Returns the text of the stub of each submodule, by its path."""
    found = {_find_stub(submodule): render_submodule(submodule) for submodule in _PREFIXES}
    return {_PACKAGE / "__init__.pyi": render_root(), **found}


def import_results(text: str) -> str:
    """Returns the lines that import the classes of named results that a stub refers to."""
    used = [name for name in list_named_results() if re.search(rf"\b{name}\b", text)]
    return f"from oplib.tensor.methods.op_methods import {', '.join(used)}\n" if used else ""


def specify_results(text: str) -> str:
    """Returns a text in which the classes of named results, which are generic, hold Tensors."""
    return re.sub(rf"\b({'|'.join(list_named_results())})\b", r"\1[Tensor]", text)


def render_submodule(submodule: str) -> str:
    """Returns the stub of a submodule. Functions that the root has too are imported from the root."""
    module = import_module(f"oplib.{submodule}")  # by name, because it is on a higher floor
    at_the_root = {id(function): name for name, function in reversed(list(FUNCTIONS.items()))}
    imports: list[str] = []
    lines: list[str] = []
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, type):
            imports.append(f"from {thing.__module__} import {name} as {name}")
        elif id(thing) in at_the_root:
            imports.append(f"from oplib.builtin.functions.registry import {at_the_root[id(thing)]} as {name}")
        else:
            op = _OPS.get(submodule, {}).get(name, f"{_PREFIXES[submodule]}{name}")
            lines += declare(name, op, list_parameters(thing))
    body = specify_results("\n".join(lines))
    classes = import_results(body)
    if "Sequence[" in body:
        imports.insert(0, "from collections.abc import Sequence")
    names = _list_names(list(module.__all__))
    return "\n".join([f"{_HEAD}{classes}".rstrip(), *imports, "", _EITHER, "", names, "", body, ""])


def render_root() -> str:
    """Returns the text of the stub of the root: its imports, under the listed names.

    A stub that imports ``from .tensor`` would show the folder under that name, not the function.
    """
    root = import_module("oplib")  # by name, because it is on a higher floor
    tree = ast.parse((_PACKAGE / "__init__.py").read_text())
    lines = [_MADE.rstrip(), "from math import e as e, inf as inf, nan as nan, pi as pi"]
    listed = set(root.__all__)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            lines += _import_from(node, listed)
    for name, alias in (("Device", "device"), ("MemoryFormat", "memory_format"), ("MemoryLayout", "layout")):
        lines.append(f"from oplib.tensor import {name} as {alias}")
    lines.append("from oplib.tensor.dtypes.names import int64 as long")  # or int32, without JAX's x64
    lines += ["", "newaxis: None", "__version__: str", "", _list_names(root.__all__), ""]
    return "\n".join(lines)


def _import_from(node: ast.ImportFrom, listed: set[str]) -> list[str]:
    if node.module is None:
        return [f"import oplib.{one.name} as {one.name}" for one in node.names if one.name in listed]
    source = f"oplib.{node.module}"
    names = [one.name for one in node.names if one.name in listed]
    lines = [f"from {_find_home(source, name)} import {name} as {name}" for name in names]
    return lines if names else [f"from {source} import *" for one in node.names if one.name == "*"]


def _find_home(submodule: str, name: str) -> str:
    """Returns the module of a function or class of a submodule."""
    home = getattr(getattr(import_module(submodule), name), "__module__", "")
    return home if home.startswith(f"{submodule}.") else submodule


def _list_names(names: list[str]) -> str:
    lines = "".join(f'    "{name}",\n' for name in sorted(names))
    return f"__all__ = [\n{lines}]"


def _find_stub(submodule: str) -> Path:
    path = _PACKAGE.joinpath(*submodule.split("."))
    return path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
