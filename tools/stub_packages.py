"""The stubs of the modules that show ops: the root, ``linalg``, ``fft``, ``special`` and ``nn.functional``.

A type checker cannot follow their ``__getattr__``, and at the root it takes the folder ``tensor`` for the
function of that name. The stubs have no ``__all__``: a name is public if it is declared there or imported
``as`` itself.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

from oplib.builtin.public_functions import registry
from oplib.builtin.public_functions.registry import FUNCTIONS, NETWORKS, REGISTRY, FunctionRegistry
from tools.stub_forms import declare, list_parameters
from tools.stub_results import list_named_results

_PACKAGE = Path(registry.__file__).parents[2]
_HEAD = "# Made from the tables of oplib/builtin by `make generate`."
_EITHER = '_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)'
# The prefix of the ops of each submodule, by which their types are found.
_PREFIXES = {"linalg": "linalg_", "fft": "fft_", "special": "special_", "nn.functional": ""}
_OPS = {
    "nn.functional": {name: op for name, (_, op) in NETWORKS.keys_by_name.items()},
    "special": {"modified_bessel_i1": "special_i1"},
}


def list_package_stubs() -> dict[Path, str]:
    """Returns the text of the stub of the root and of each submodule, by its path."""
    found = {_find_stub(submodule): render_submodule(submodule) for submodule in _PREFIXES}
    return {_PACKAGE / "__init__.pyi": render_root(), **found}


def specify_results(text: str) -> str:
    """Returns a text in which the classes of named results, which are generic, hold Tensors."""
    return re.sub(rf"\b({'|'.join(list_named_results())})\b", r"\1[Tensor]", text)


def list_declarations(registry: FunctionRegistry) -> list[str]:
    """Returns the lines that declare the functions at the root."""
    return [
        line
        for name, function in sorted(registry.functions.items())
        for line in declare(name, name, list_parameters(function), registry=registry)
    ]


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
        elif name == (known := at_the_root.get(id(thing))):
            imports.append(f"from oplib import {name} as {name}")
        elif known:
            imports.append(f"from oplib import {known} as _{known}")
            lines.append(f"{name} = _{known}")
        else:
            op = _OPS.get(submodule, {}).get(name, f"{_PREFIXES[submodule]}{name}")
            lines += declare(name, op, list_parameters(thing))
    return _render([*imports, "from oplib.tensor import Tensor"], lines)


def render_root() -> str:
    """Returns the text of the stub of the root: its imports, under the listed names, and its functions.

    A stub that imports ``from .tensor`` would show the folder under that name, not the function.
    """
    root = import_module("oplib")  # by name, because it is on a higher floor
    tree = ast.parse((_PACKAGE / "__init__.py").read_text())
    imports = ["import builtins", "from math import e as e, inf as inf, nan as nan, pi as pi"]
    listed = set(root.__all__)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            imports += [line for line in _import_from(node, listed) if line not in imports]
    aliases = ["device = Device", "layout = MemoryLayout", "memory_format = MemoryFormat"]
    aliases.append("long = int64")  # or int32, without JAX's x64
    # At the root `bool` and `int` are dtypes.
    functions = [re.sub(r"\b(bool|int)\b", r"builtins.\1", line) for line in list_declarations(REGISTRY)]
    return _render(imports, ["newaxis: None", "__version__: str", *aliases, "", *functions])


def _render(imports: list[str], lines: list[str]) -> str:
    body = specify_results("\n".join(lines))
    used = [name for name in list_named_results() if re.search(rf"\b{name}\b", body)]
    classes = [f"from oplib.tensor.methods.op_methods import {', '.join(used)}"] if used else []
    sequence = ["from collections.abc import Sequence"] if "Sequence[" in body else []
    typing = ["from typing import Any, TypeVar, overload", "", "from jax import Array"]
    return "\n".join([_HEAD, *sequence, *typing, *imports, *classes, "", _EITHER, "", body, ""])


def _import_from(node: ast.ImportFrom, listed: set[str]) -> list[str]:
    if node.module is None:
        names = [one.name for one in node.names if one.name in listed and one.asname in (None, one.name)]
        return [f"from . import {name} as {name}" for name in names]
    source = f"oplib.{node.module}"
    names = [one.name for one in node.names if one.name in listed]
    if source == "oplib.tensor" and node.names[0].name == "*":
        names = [name for name in import_module(source).__all__ if name in listed]
    lines = [f"from {_find_home(source, name)} import {name} as {name}" for name in names]
    is_of_dtypes = source == "oplib.tensor.dtypes.names" and node.names[0].name == "*"
    return [f"from {source} import *"] if is_of_dtypes else lines


def _find_home(submodule: str, name: str) -> str:
    """Returns the module of a function or class of a submodule."""
    home = getattr(getattr(import_module(submodule), name), "__module__", "")
    return home if home.startswith(f"{submodule}.") else submodule


def _find_stub(submodule: str) -> Path:
    path = _PACKAGE.joinpath(*submodule.split("."))
    return path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
