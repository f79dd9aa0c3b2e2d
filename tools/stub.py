"""The stub file of the methods that are generated from the tables; a test compares the two."""

from __future__ import annotations

import re
from pathlib import Path

from oplib.builtin.public_functions.registry import METHODS
from oplib.tensor import Tensor
from oplib.tensor.methods import op_methods
from oplib.tensor.methods.op_methods import OpMethods
from tools.stub_forms import declare, list_parameters
from tools.stub_packages import list_package_stubs, specify_results
from tools.stub_results import list_named_results

METHODS_STUB = Path(op_methods.__file__).with_suffix(".pyi")
_METHODS_HEAD = """# Made from the tables of oplib/builtin by `make generate`.
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, overload

from oplib.tensor.storage.tensor_slots import TensorT

"""
_METHODS_TAIL = """
class OpMethod:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], name: str) -> None: ...
    def __get__(self, instance: Any, owner: type) -> Any: ...

def add_op_methods(functions: Mapping[str, Callable[..., Any]]) -> None: ...
"""


def write_stub() -> None:
    """Writes all stubs beside their modules."""
    METHODS_STUB.write_text(render_methods())
    for path, text in list_package_stubs().items():
        path.write_text(text)


def render_methods() -> str:
    """Returns the text of the stub of the methods, generic in the class that they are mixed into."""
    lines = [
        line
        for name, function in sorted(METHODS.items())
        if not _is_written_out(name)
        for line in declare(
            name, name, list_parameters(METHODS.get(name.removesuffix("_"), function)), is_method=True
        )
    ]
    body = re.sub(r"\bTensor\b", "TensorT", specify_results("\n".join(f"    {line}" for line in lines)))
    classes = "\n".join(
        f"class {name}(NamedTuple, Generic[TensorT]):\n"
        + "".join(f"    {field}: TensorT\n" for field in fields)
        for name, fields in list_named_results().items()
    )
    return f"{_METHODS_HEAD}{classes}\nclass OpMethods(Generic[TensorT]):\n{body}\n{_METHODS_TAIL}"


def _is_written_out(name: str) -> bool:
    """Tells whether Tensor has a hand-written method of this name, which has its own types."""
    return any(name in vars(cls) for cls in Tensor.__mro__ if cls is not OpMethods)
