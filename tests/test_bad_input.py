"""Arguments of any kind: the answer is a result or an error of oplib, and not one of Python, numpy or JAX."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import AllocationError, ArgumentTypeError, ArgumentValueError, OplibError, describe
from oplib.raw_errors import explain_raw
from tests.bad_calls import BAD, draw_calls, list_functions, list_modules, make_cycle, make_cycle_of_dict
from tests.seed import draw_cases, make_random

FUNCTIONS = list_functions()
CALLS = 4  # of each function


@pytest.mark.slow
@pytest.mark.parametrize("path", draw_cases(sorted(FUNCTIONS), 80, "bad input", is_steady=True))
def test_a_call_with_a_bad_value_gives_a_result_or_an_error_of_oplib(path):
    for call in draw_calls(path, FUNCTIONS[path], make_random(path, is_steady=True), CALLS):
        error = call.run(FUNCTIONS[path])
        assert error is None, f"{call} raised {type(error).__name__}: {error}"


def test_the_functions_come_from_all_public_modules():
    modules = {module.__name__ for module in list_modules()}
    assert modules > {
        "oplib",
        "oplib.fft",
        "oplib.linalg",
        "oplib.masked",
        "oplib.nn.functional",
        "oplib.nn.utils",
    }
    assert modules > {"oplib.signal.windows", "oplib.special", "oplib.autograd", "oplib.visual"}
    assert {"oplib.sin", "oplib.masked.sum", "oplib.Tensor.add_", "oplib.Tensor.__setitem__"} <= set(
        FUNCTIONS
    )


@pytest.mark.parametrize("kind", ["object", "str", "bytes", "datetime", "record"])
def test_an_array_that_holds_no_numbers_is_refused_with_its_dtype(kind):
    given = BAD[f"{kind} array"]()
    for function in (oplib.sin, oplib.sum, lambda one: oplib.cat([one, one])):
        with pytest.raises(ArgumentTypeError, match="holds no numbers"):
            function(given)
    with pytest.raises(OplibError, match="no tensor has the dtype of this array"):
        oplib.ones(2) + given


@pytest.mark.parametrize(
    "call",
    [
        oplib.bincount,
        oplib.meshgrid,
        lambda one: oplib.gather(oplib.ones(3), 0, one),
        lambda one: oplib.quantile(oplib.ones(3), one),
        lambda one: F.nll_loss(oplib.ones(2, 3), one),
    ],
    ids=["bincount", "meshgrid", "gather", "quantile", "nll_loss"],
)
@pytest.mark.parametrize(
    "given", [object(), make_cycle(), {1: 2}, len, np.array(["a"])], ids=lambda it: type(it).__name__
)
def test_a_function_of_several_ops_refuses_what_is_no_tensor(call, given):
    with pytest.raises(OplibError):
        call(given)


@pytest.mark.parametrize(
    "call",
    [oplib.tensor, oplib.sin, oplib.stack, lambda one: oplib.ones(2).fill_(one)],
    ids=["tensor", "sin", "stack", "fill_"],
)
def test_a_list_that_contains_itself_is_refused(call):
    with pytest.raises(OplibError):
        call(make_cycle())


@pytest.mark.parametrize(
    "call",
    [
        lambda one: oplib.tensor([1], dtype=one),
        lambda one: oplib.ones(2).to(one),
        lambda one: oplib.tensor([1], device=one),
        lambda one: oplib.ones(one),
        lambda one: oplib.ones(2).set_(oplib.ones(2), 0, one),
        lambda one: oplib.vmap(one)(oplib.ones(2)),
        lambda one: oplib.vmap(oplib.sin, in_dims=one)(oplib.ones(2)),
        lambda one: oplib.vmap(oplib.sin, randomness=one),
        lambda one: oplib.no_grad(one),
        lambda one: oplib.custom_op(one),
        lambda one: oplib.custom_op("zz::f", schema="(Tensor x) -> Tensor", tags=one)(lambda x: x),
        lambda one: oplib.library.opcheck(one, ()),
        lambda one: setattr(oplib.config, "traceback", one),
    ],
)
@pytest.mark.parametrize("kind", ["deep list", "array"])
def test_an_argument_that_cannot_be_printed_or_compared_is_refused(call, kind):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(OplibError):
        call(deep if kind == "deep list" else np.array([0.5, 1.5]))


def test_a_dict_that_contains_itself_is_refused_where_arguments_are_a_key():
    for _ in range(2):
        with pytest.raises(ArgumentTypeError, match=r"argument 'dims'.*\{'itself': "):
            oplib.tile(oplib.ones(3), make_cycle_of_dict())


def test_more_parts_than_memory_holds_are_refused_before_they_are_made():
    with pytest.raises(AllocationError, match="tensor_split into 1000000000000000000 parts"):
        oplib.tensor_split(oplib.ones(3), 10**18)


def test_a_list_that_contains_itself_is_described():
    assert describe(make_cycle()) == "[[[[[...]]]]]"
    assert describe(([(1,)],)) == "([(1,)],)"


def test_a_raw_error_names_the_call_and_its_arguments():
    with pytest.raises(
        ArgumentTypeError,
        match=r"^size: cannot use these arguments. Got .*f32\[3\], 'one'.*; "
        r"TypeError: '<=' not supported between instances of 'int' and 'str'. Pass values",
    ) as caught:
        oplib.ones(3).size("one")
    assert type(caught.value.__cause__) is TypeError


def test_an_error_of_the_users_code_stays_as_it_is():
    x = oplib.ones(2, requires_grad=True)
    x.register_hook(lambda grad: {}["missing"])
    with pytest.raises(KeyError) as caught:
        x.sum().backward()
    assert type(caught.value) is KeyError


@pytest.mark.parametrize("kind", [RuntimeWarning, RecursionError, EOFError])
def test_an_error_that_is_not_about_arguments_stays_as_it_is(kind):
    assert explain_raw(kind("text"), sys._getframe()) is None


def test_the_class_of_a_raw_error_is_a_base_of_its_replacement():
    for kind in (TypeError, ValueError, IndexError, OverflowError, NotImplementedError, MemoryError):
        assert isinstance(explain_raw(kind("text"), sys._getframe()), kind)
    assert isinstance(explain_raw(KeyError("text"), sys._getframe()), ArgumentValueError)


@pytest.mark.parametrize(
    ("call", "missing"),
    [(lambda: oplib.scan(lambda c, x: (c, x)), "'init'"), (oplib.while_loop, "'cond_fn'")],
)
def test_a_missing_argument_is_no_defect_of_oplib(call, missing):
    with pytest.raises(
        ArgumentTypeError, match=rf"(scan|while_loop): .*{missing}.* Correct the call: help\(\)"
    ):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: oplib.optim.Optimizer([oplib.ones(1)], [oplib.ones(1)], 3),
            r"Optimizer: .*Got args \(\[f32\[1\]\], \[f32\[1\]\], 3\), kwargs {}; .* but 4 were given",
        ),
        (
            lambda: oplib.Generator(1, 2, 3),
            r"Generator: .*Got args \(1, 2, 3\), .*takes from 1 to 2 positional",
        ),
        (lambda: oplib.library.Library(), r"Library: .*missing 2 required positional arguments: 'ns' and"),
        (lambda: type("Mine", (oplib.optim.Optimizer,), {})(), r"Optimizer: .*missing 1 required"),
    ],
    ids=["Optimizer", "Generator", "Library", "subclass"],
)
def test_a_wrong_call_of_a_class_names_the_class_and_shows_what_it_was_given(call, text):
    with pytest.raises(ArgumentTypeError, match=text) as caught:
        call()
    assert "Correct the call" in str(caught.value)
