"""The same functions give the same schemas, and the same refusals, as in torch."""

# ruff: noqa: UP006, UP007  torch's own spellings

from __future__ import annotations

import types
import typing
from typing import Any, List, Optional, Tuple, Union  # noqa: UP035

import numpy as np
import pytest

from oplib.library.infer_schema import infer_schema
from oplib.tensor import Tensor
from oplib.tensor.devices.device import Device

torch = pytest.importorskip("torch")

HINTS = [
    "Tensor", "Optional[Tensor]", "Tensor | None", "List[Tensor]", "list[Tensor]", "typing.Sequence[Tensor]",
    "List[Optional[Tensor]]", "int", "Optional[int]", "List[int]", "Optional[List[int]]", "float",
    "List[float]", "bool", "Optional[bool]", "str", "Optional[str]", "Number", "Optional[Number]",
    "List[Number]", "Dtype", "Optional[Dtype]", "Device",
]  # fmt: skip
REFUSED = [
    "complex", "dict", "list", "tuple", "List[List[int]]", "List[Optional[int]]", "Union[int, float]",
    "Nothing", "Tensor | int", "typing.Callable", "typing.Annotated[int, 'm']",
]  # fmt: skip
RETURNS = [
    "None", "Tensor", "List[Tensor]", "int", "float", "bool", "Number", "Tuple[Tensor, int]", "Tuple[Tensor]",
    "Tuple[Tensor, List[Tensor]]",
]  # fmt: skip
REFUSED_RETURNS = ["str", "Dtype", "List[int]"]
TREES = ["Tuple[Tensor, ...]", "Optional[Tensor]", "typing.Sequence[Tensor]", "dict"]
SIGNATURES = [
    "x: Tensor, y: int = 3, *, z: float = 0.5, w: Optional[Tensor] = None",
    "x: Tensor, s: str = 'a', b: bool = True, n: Optional[int] = None",
    "*, x: Tensor",
    "",
]
BAD_SIGNATURES = ["x: Tensor, /", "*x: Tensor", "**x: Tensor", "x", "x: List[int] = [1]", "x: int = (1,)"]


def make_pair(source: str, returned: str) -> tuple[Any, Any]:
    """The same function with torch's types and with oplib's."""
    shared = {
        "typing": typing,
        "Any": Any,
        "List": List,
        "Optional": Optional,
        "Tuple": Tuple,
        "Union": Union,
    }
    number = Union[int, float, bool]
    worlds = [
        {**shared, "Tensor": torch.Tensor, "Dtype": torch.dtype, "Device": torch.device, "Number": number},
        {**shared, "Tensor": Tensor, "Dtype": np.dtype, "Device": Device, "Number": number},
    ]
    made = []
    for world in worlds:
        module = types.ModuleType("made")
        vars(module).update(world)
        exec(f"from __future__ import annotations\ndef fn({source}) -> {returned}: ...", vars(module))
        made.append(vars(module)["fn"])
    return made[0], made[1]


def infer_both(source: str, returned: str = "None", **options: Any) -> tuple[str, str]:
    theirs, ours = make_pair(source, returned)
    text = torch.library.infer_schema(theirs, **{"mutates_args": (), **options})
    return text.replace("SymInt", "int"), infer_schema(ours, **options)


@pytest.mark.parametrize("hint", HINTS)
def test_a_parameter_has_torchs_type(hint):
    theirs, ours = infer_both(f"v: {hint}")
    assert ours == theirs


@pytest.mark.parametrize("returned", RETURNS)
def test_a_return_has_torchs_type(returned):
    theirs, ours = infer_both("v: Tensor", returned)
    assert ours == theirs


@pytest.mark.parametrize("source", SIGNATURES)
def test_a_signature_has_torchs_schema(source):
    theirs, ours = infer_both(source, "Tensor")
    assert str(torch._C.parse_schema("f" + ours)) == str(torch._C.parse_schema("f" + theirs))


@pytest.mark.parametrize("names", [("x",), ("y", "z"), "unknown", ()])
def test_written_arguments_have_torchs_marks(names):
    theirs, ours = infer_both("x: Tensor, n: int, y: List[Tensor], z: Optional[Tensor]", mutates_args=names)
    assert ours == theirs


@pytest.mark.parametrize(
    ("source", "returned"),
    [(f"v: {hint}", "None") for hint in REFUSED]
    + [("v: Tensor", hint) for hint in REFUSED_RETURNS]
    + [(source, "None") for source in BAD_SIGNATURES],
)
def test_what_torch_refuses_is_refused_with_its_error(source, returned):
    theirs, ours = make_pair(source, returned)
    with pytest.raises(ValueError):
        torch.library.infer_schema(theirs, mutates_args=())
    with pytest.raises(ValueError):
        infer_schema(ours)


@pytest.mark.parametrize("returned", TREES)
def test_results_of_any_structure_are_any_where_torch_refuses_them(returned):
    theirs, ours = make_pair("v: Tensor", returned)
    with pytest.raises(ValueError):
        torch.library.infer_schema(theirs, mutates_args=())
    assert infer_schema(ours) == "(Tensor v) -> Any"


@pytest.mark.parametrize("names", [("n",), ("q",), "x"])
def test_bad_mutates_args_are_refused_as_in_torch(names):
    theirs, ours = make_pair("x: Tensor, n: int", "None")
    with pytest.raises(ValueError):
        torch.library.infer_schema(theirs, mutates_args=names)
    with pytest.raises(ValueError):
        infer_schema(ours, mutates_args=names)
