"""The types of the functions that are made from the tables, as a stub file; a test compares the two."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._functions import FUNCTIONS

STUB = Path(__file__).with_name("_functions.pyi")
_HEAD = """# ruff: noqa: A001, A002  names are torch's, and documented where they are made
# Made from the tables: python -c "import oplib.ops._stub as s; s.write_stub()"
from collections.abc import Callable, Mapping
from typing import Any

from ._registrar import Overloads
from ._table import Row

FAMILIES: tuple[Any, ...]
ROWS: tuple[Row, ...]
OVERLOADS: Overloads
FUNCTIONS: Mapping[str, Callable[..., Any]]
IN_PLACE: Mapping[str, Callable[..., Any]]
UPCALLS: Mapping[str, Callable[..., Any]]

"""


def render_stub() -> str:
    """Returns the text of the stub."""
    names = "".join(f'    "{name}",\n' for name in sorted(FUNCTIONS))
    functions = "\n".join(_declare(name, function) for name, function in sorted(FUNCTIONS.items()))
    return f"{_HEAD}__all__ = [\n{names}]\n\n{functions}\n"


def write_stub() -> None:
    """Writes the stub beside the functions."""
    STUB.write_text(render_stub())


def _declare(name: str, function: Callable[..., Any]) -> str:
    empty = inspect.Parameter.empty
    parameters = [
        parameter.replace(annotation=Any, default=empty if parameter.default is empty else ...)
        for parameter in inspect.signature(function).parameters.values()
    ]
    signature = str(inspect.Signature(parameters)).replace("typing.Any", "Any").replace("Ellipsis", "...")
    return f"def {name}{signature} -> Any: ..."
