"""The types of the functions that are made from the tables, as a stub file; a test compares the two."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oplib.tensor import Tensor, op_methods
from oplib.tensor.op_methods import OpMethods

from ._functions import ALIASES, FUNCTIONS, METHODS, OVERLOADS
from ._parameters import list_parameters

STUB = Path(__file__).with_name("_functions.pyi")
METHODS_STUB = Path(op_methods.__file__).with_suffix(".pyi")
_METHODS_HEAD = """# ruff: noqa: A002, E501, N803  names are torch's, and documented where they are made
# Made from the tables: python -c "import oplib.ops._stub as s; s.write_stub()"
from collections.abc import Callable, Mapping
from typing import Any

from .tensor import Tensor

"""
_METHODS_TAIL = """
class OpMethod:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], name: str) -> None: ...
    def __get__(self, instance: Any, owner: type) -> Any: ...

def add_op_methods(functions: Mapping[str, Callable[..., Any]]) -> None: ...
"""
_HEAD = """# ruff: noqa: A001, A002, E501, N803  names are torch's, and documented where they are made
# Made from the tables: python -c "import oplib.ops._stub as s; s.write_stub()"
from collections.abc import Callable, Mapping
from typing import Any

from ._registrar import Overloads
from ._table import Row

ROWS: tuple[Row, ...]
ALIASES: Mapping[str, str]
OVERLOADS: Overloads
FUNCTIONS: Mapping[str, Callable[..., Any]]
IN_PLACE: Mapping[str, Callable[..., Any]]
NETWORKS_IN_PLACE: list[str]
COMPOSED: Mapping[str, Callable[..., Any]]
METHODS: Mapping[str, Callable[..., Any]]
LINALG: Mapping[str, Callable[..., Any]]
FFT: Mapping[str, Callable[..., Any]]
SPECIAL: Mapping[str, Callable[..., Any]]
UPCALLS: Mapping[str, Callable[..., Any]]

"""


def render_stub() -> str:
    """Returns the text of the stub."""
    names = "".join(f'    "{name}",\n' for name in sorted(FUNCTIONS))
    functions = "\n".join(_declare(name, function) for name, function in sorted(FUNCTIONS.items()))
    return f"{_HEAD}__all__ = [  # noqa: RUF022  in the order of the code points\n{names}]\n\n{functions}\n"


def write_stub() -> None:
    """Writes both stubs beside what they describe."""
    STUB.write_text(render_stub())
    METHODS_STUB.write_text(render_methods())


def render_methods() -> str:
    """Returns the text of the stub of the methods."""
    lines = [
        _declare(name, METHODS.get(name.removesuffix("_"), function), is_method=True)
        for name, function in sorted(METHODS.items())
        if not _is_written_out(name)
    ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"{_METHODS_HEAD}class OpMethods:\n{body}\n{_METHODS_TAIL}"


def _is_written_out(name: str) -> bool:
    """Whether Tensor has a method of this name that is written out, whose types are its own."""
    return any(name in vars(cls) for cls in Tensor.__mro__ if cls is not OpMethods)


def _declare(name: str, function: Callable[..., Any], *, is_method: bool = False) -> str:
    empty = inspect.Parameter.empty
    parameters = [
        parameter.replace(annotation=Any, default=empty if parameter.default is empty else ...)
        for parameter in list_parameters(function)
    ]
    if is_method:
        parameters[0] = parameters[0].replace(name="self", annotation=empty)
    signature = str(inspect.Signature(parameters)).replace("typing.Any", "Any").replace("Ellipsis", "...")
    return f"def {name}{signature} -> {'Tensor' if is_method and _gives_tensor(name) else 'Any'}: ..."


def _gives_tensor(name: str) -> bool:
    """Whether a method gives one Tensor whatever it is called with: all overloads do, or it is in place."""
    op = ALIASES.get(name, name)
    if op not in OVERLOADS.list_ops():
        return name.endswith("_")
    return all(row.schema.endswith("-> Tensor") for row in OVERLOADS.rows_of(op))
