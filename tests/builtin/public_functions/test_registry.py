"""One row is enough: the registry makes every form of the function, and the tools its types and its line."""

from __future__ import annotations

import inspect
import traceback

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.builtin.public_functions.registry import FunctionRegistry
from oplib.builtin.registration import Overloads
from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import ItemRow, Row
from oplib.builtin.shared_kernels import view_rules
from oplib.errors import ArgumentTypeError, UnsupportedDtypeError
from tools.ops_page import list_lines
from tools.stub_packages import list_declarations

PLAIN = ItemRow(
    "tabled_double(Tensor self) -> Tensor",
    lambda self: self * 2,
    "twice the item",
    in_place=True,
    aliases=("tabled_twice",),
    in_place_functions=("tabled_double_", "nn.functional.tabled_double_"),
    network_name="tabled_double",
    inplace_at=1,
)
ALONG = Row(
    "tabled_total(Tensor self, int dim, bool keepdim=False) -> Tensor",
    lambda self, dim, keepdim: jnp.sum(self, dim, keepdims=keepdim),
    "sum along a dim",
    out=True,
)
PAIR = Row(
    "tabled_ends(Tensor self) -> (Tensor low, Tensor high)",
    lambda self: (jnp.min(self), jnp.max(self)),
    "the smallest and the largest item",
)
VIEW = Row(
    "tabled_turned(Tensor self, int dim0, int dim1) -> Tensor",
    view_rules.make_view_kernel(view_rules.transpose),
    "with two dims exchanged",
    view=view_rules.transpose,
)
LISTED = Row(
    "tabled_repeated(Tensor self, int[] times) -> Tensor",
    lambda self, times: jnp.tile(self, times),
    "the items several times",
    variadic="times",
)
HIDDEN = Row("tabled_hidden(Tensor self) -> Tensor", lambda self: self, "itself", is_internal=True)
IN_LINALG = Row(
    "linalg_tabled(Tensor self) -> Tensor",
    lambda self: jnp.trace(self),
    "the trace",
    aliases=("tabled_trace",),
)
BY_NUMBER = ItemRow(
    "tabled_plus.Scalar(Tensor self, Scalar other) -> Tensor",
    lambda self, other: self + other,
    "self plus a number",
    operand=("other",),
)
BY_TENSOR = ItemRow(
    "tabled_plus.Tensor(Tensor self, Tensor other) -> Tensor",
    lambda self, other: self + other,
    "self plus a tensor",
    in_place=True,
)
ROWS = (PLAIN, ALONG, PAIR, VIEW, LISTED, HIDDEN, BY_NUMBER, BY_TENSOR, IN_LINALG)


def tabled_mean(input, dim=0):  # noqa: A002  torch's name
    """The mean along a dim."""
    return input.sum(dim) / input.shape[dim]


@pytest.fixture
def registry(forget_ops: None) -> FunctionRegistry:
    overloads = Overloads(ROWS)
    assert all(overloads[row.name] for row in ROWS)  # registered now, so that the ops go with the test
    return FunctionRegistry(overloads, {"tabled_mean": Composed(tabled_mean, is_method=True, out=True)})


def test_a_plain_row_gives_function_method_alias_and_in_place_form(registry):
    x = oplib.tensor([1.0, 2.0])
    double = registry.functions["tabled_double"]
    for _ in range(3):  # as it is made, then with its fast path
        assert double(x).tolist() == [2.0, 4.0]
        assert registry.methods["tabled_double"](x).tolist() == [2.0, 4.0]
    assert registry.functions["tabled_twice"] is double
    assert registry.in_place["tabled_double_"](x) is x
    assert registry.functions["tabled_double_"] is registry.methods["tabled_double_"]
    assert x.tolist() == [2.0, 4.0]
    assert (double.__name__, double.__qualname__, double.__module__) == ("tabled_double",) * 2 + ("oplib",)
    assert registry.methods["tabled_double"].__qualname__ == "Tensor.tabled_double"
    assert "tabled_hidden" in registry.ops
    assert "tabled_hidden" not in registry.functions


def test_a_function_takes_out_and_further_names_if_the_row_declares_them(registry):
    x, out = oplib.tensor([[1.0, 2.0], [3.0, 4.0]]), oplib.empty(0)
    total = registry.functions["tabled_total"]
    assert total(x, axis=0, keepdims=True, out=out) is out
    assert out.tolist() == [[4.0, 6.0]]
    assert str(inspect.signature(total)) == "(input, dim=<required>, keepdim=False, *, out=None, **names)"
    assert "out" not in inspect.signature(registry.methods["tabled_total"]).parameters
    with pytest.raises(ArgumentTypeError, match=r"tabled_total\(\) missing 1 required .* 'dim'"):
        total(x)


def test_several_overloads_are_told_by_where_they_take_a_number(registry):
    x, plus, out = oplib.tensor([1.0, 2.0]), registry.functions["tabled_plus"], oplib.empty(0)
    for _ in range(3):
        assert plus(x, 1).tolist() == plus(x, np.float32(1)).tolist() == [2.0, 3.0]
        assert plus(x, x).tolist() == plus(x, np.array([1.0, 2.0], np.float32)).tolist() == [2.0, 4.0]
        assert plus(x.array, 1).tolist() == registry.methods["tabled_plus"](x, True).tolist() == [2.0, 3.0]
    assert plus(x, 1, out=out) is out
    assert registry.in_place["tabled_plus_"](x, 1) is registry.in_place["tabled_plus_"](x, x) is x
    assert x.tolist() == [4.0, 6.0]
    assert "tabled_plus.Scalar(Tensor self, Scalar other) -> Tensor" in (plus.__doc__ or "")
    with pytest.raises(ArgumentTypeError, match=r"argument 'other' .* expected a value of type 'Tensor'"):
        plus(x, "one")


def test_results_views_and_lists_of_numbers_have_their_forms(registry):
    x = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert registry.functions["tabled_ends"](x).high.tolist() == 4.0
    turned = registry.functions["tabled_turned"](x, 0, 1)
    assert turned._base is x
    method = registry.methods["tabled_repeated"]
    assert method(x, 1, 2).tolist() == method(x, [1, 2]).tolist() == method(x, times=(1, 2)).tolist()
    assert registry.linalg["linalg_tabled"](x).tolist() == 5.0
    assert registry.functions["tabled_trace"] is registry.linalg["linalg_tabled"]


def test_a_function_of_networks_writes_its_argument_if_the_flag_is_set(registry):
    x, double = oplib.tensor([1.0, 2.0]), registry.networks["tabled_double"]
    for _ in range(3):
        assert double(x).tolist() == [2.0, 4.0]
    assert double(x, inplace=True) is x
    assert x.tolist() == [2.0, 4.0]
    assert str(inspect.signature(double)) == "(input, inplace=False)"
    assert (double.__qualname__, double.__module__) == ("tabled_double", "oplib.nn.functional")
    assert registry.networks["tabled_double_"] is registry.in_place["tabled_double_"]


def test_a_function_of_several_ops_has_the_forms_of_its_record(registry):
    x, out = oplib.tensor([[1.0, 2.0], [3.0, 4.0]]), oplib.empty(0)
    assert registry.functions["tabled_mean"](x, axis=1, out=out) is out
    assert registry.methods["tabled_mean"](x).tolist() == [2.0, 3.0]
    with pytest.raises(ArgumentTypeError, match="tabled_mean: argument 'input' expected a value of type"):
        registry.functions["tabled_mean"]([1.0])


def test_there_is_one_frame_between_a_call_and_the_overload(registry, monkeypatch):
    monkeypatch.setattr(oplib.config, "traceback", "full")

    def list_frames(function, *args):
        for _ in range(3):  # the second call writes the fast path, and calls the function again
            function(*args[:-1], 0)
        with pytest.raises(Exception, match="out of") as caught:
            function(*args)
        files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
        return [file.partition(" ")[0].rstrip(">") for file in files if file.startswith("<oplib")]

    x = oplib.ones(2, 2)
    total = registry.functions["tabled_total"]
    assert list_frames(total, x, 7) == ["<oplib.tabled_total"]
    assert list_frames(oplib.std, x, 7) == ["<oplib.std"]
    assert list_frames(oplib.sum, x, 7) == ["<oplib.sum"]
    assert list_frames(x.std, 7) == ["<oplib.Tensor.std"]
    assert list_frames(x.cumsum_, 7) == ["<oplib.Tensor.cumsum_"]
    assert list_frames(x.flip, 7) == ["<oplib.Tensor.flip"]


def test_a_function_that_writes_its_argument_has_one_frame_too(monkeypatch):
    monkeypatch.setattr(oplib.config, "traceback", "full")
    ints = oplib.ones(2, dtype=oplib.int32)
    for function in (oplib.nn.functional.elu, oplib.nn.functional.elu_):
        for _ in range(2):  # in its second call a function writes its code, and calls itself
            function(oplib.ones(2))
        with pytest.raises(UnsupportedDtypeError) as caught:
            function(ints, **({} if function is oplib.nn.functional.elu_ else {"inplace": True}))
        files = [frame.filename for frame in traceback.extract_tb(caught.tb)]
        assert len([file for file in files if file.startswith("<oplib.")]) == 1


def test_stub_page_and_docstring_tell_of_each_row(registry):
    declared = list_declarations(registry)
    assert "def tabled_double(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ..." in declared
    assert "def tabled_double_(input: Any) -> Tensor: ..." in declared
    assert any(line.startswith("def tabled_ends(input: Tensor") for line in declared)
    assert any(line.startswith("def tabled_mean(") for line in declared)
    lines = list_lines(ROWS, registry)
    assert "`oplib.tabled_double`, `.tabled_double`, `oplib.tabled_double_`, `.tabled_double_`" in lines[0]
    assert "*view*" in lines[3]
    assert "`oplib.linalg.tabled`" in lines[-1]
    doc = registry.functions["tabled_double"].__doc__ or ""
    assert doc.startswith("Twice the item.")
    assert "of the shape of `input` and of the dtype of `input`" in doc.replace("\n        ", " ")
    assert "out: a tensor that the result is written into" in doc
    assert isinstance(registry.functions["tabled_double"](oplib.ones(1)), Tensor)
