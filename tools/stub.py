"""The stub file of the functions that are generated from the tables; a test compares the two."""

from __future__ import annotations

import re
from pathlib import Path

from oplib.builtin.functions import registry
from oplib.builtin.functions.registry import FUNCTIONS, METHODS, REGISTRY, FunctionRegistry
from oplib.builtin.rows.parameters import list_parameters
from oplib.tensor import Tensor
from oplib.tensor.methods import op_methods
from oplib.tensor.methods.op_methods import OpMethods
from tools.stub_forms import declare
from tools.stub_packages import import_results, list_submodule_stubs, specify_results
from tools.stub_results import list_named_results

STUB = Path(registry.__file__).with_suffix(".pyi")
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
_HEAD = """# Made from the tables of oplib/builtin by `make generate`.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from jax import Array
from oplib.tensor import Tensor
{classes}
from oplib.builtin.registration import Overloads
from oplib.builtin.rows.composed import Composed

ALIASES: Mapping[str, str]
OVERLOADS: Overloads
FUNCTIONS: View
IN_PLACE: Mapping[str, Callable[..., Any]]
NETWORKS: View
COMPOSED: Mapping[str, Composed]
TAKING_OUT: set[str]
REGISTRY: FunctionRegistry

class View(Mapping[str, Callable[..., Any]]):
    keys_by_name: dict[str, tuple[str, str]]
    def __getitem__(self, name: str) -> Callable[..., Any]: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __or__(self, other: View) -> View: ...
    def rename(self, names: Mapping[str, str]) -> View: ...

class FunctionRegistry:
    overloads: Overloads
    composed: Mapping[str, Composed]
    aliases: Mapping[str, str]
    ops: View
    in_place: View
    functions: View
    methods: View
    linalg: View
    fft: View
    special: View
    networks: View
    def __init__(
        self, overloads: Overloads, composed: Mapping[str, Composed], losses: Iterable[str] = ()
    ) -> None: ...

METHODS: Mapping[str, Callable[..., Any]]
LINALG: View
FFT: View
SPECIAL: View
UPCALLS: Mapping[str, Callable[..., Any]]

_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)

"""


def render_stub() -> str:
    """Returns the text of the stub."""
    names = "".join(f'    "{name}",\n' for name in sorted(FUNCTIONS))
    functions = specify_results("\n".join(list_declarations(REGISTRY)))
    listed = f"__all__ = [\n{names}]"
    return f"{_HEAD.replace('{classes}', import_results(functions))}{listed}\n\n{functions}\n"


def list_declarations(registry: FunctionRegistry) -> list[str]:
    """Returns the lines that declare the functions at the root."""
    return [
        line
        for name, function in sorted(registry.functions.items())
        for line in declare(name, name, list_parameters(function), registry=registry)
    ]


def write_stub() -> None:
    """Writes all stubs beside their modules."""
    STUB.write_text(render_stub())
    METHODS_STUB.write_text(render_methods())
    for path, text in list_submodule_stubs().items():
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
