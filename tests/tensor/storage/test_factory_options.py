"""The options of factories are listed by name where a program or a person looks for them."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import oplib
from oplib import Tensor

OPTIONS = {
    "dtype": None,
    "device": None,
    "requires_grad": False,
    "layout": None,
    "pin_memory": False,
    "memory_format": None,
}
FUNCTIONS = [
    *(oplib.zeros, oplib.ones, oplib.empty, oplib.full, oplib.eye, oplib.arange, oplib.linspace),
    *(oplib.logspace, oplib.zeros_like, oplib.ones_like, oplib.empty_like, oplib.full_like),
    *(oplib.rand, oplib.randn, oplib.randint, oplib.randperm),
    *(oplib.rand_like, oplib.randn_like, oplib.randint_like),
]
METHODS = [Tensor.new_full, Tensor.new_zeros, Tensor.new_ones, Tensor.new_empty]


@pytest.mark.parametrize("function", [*FUNCTIONS, *METHODS], ids=lambda function: function.__name__)
def test_the_signature_of_a_factory_lists_each_option_with_its_default(function: Callable[..., Any]):
    parameters = inspect.signature(function).parameters
    listed = list(parameters.values())[-len(OPTIONS) :]
    assert {parameter.name: parameter.default for parameter in listed} == OPTIONS
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in listed)
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())


def test_the_own_parameters_of_a_factory_come_first():
    assert str(inspect.signature(oplib.ones)) == (
        "(*sizes: 'Any', size: 'Any' = None, dtype: 'Any' = None, device: 'Any' = None, "
        "requires_grad: 'bool' = False, layout: 'Any' = None, pin_memory: 'bool' = False, "
        "memory_format: 'Any' = None) -> 'Tensor'"
    )
    assert list(inspect.signature(oplib.eye).parameters)[:3] == ["n", "m", "dtype"]


def test_a_call_by_the_signature_gives_what_the_factory_gives():
    bound = inspect.signature(oplib.full).bind((2,), 3, dtype=oplib.int16, requires_grad=False)
    bound.apply_defaults()
    result = oplib.full(*bound.args, **bound.kwargs)
    assert result.dtype == oplib.int16
    assert result.tolist() == [3, 3]
    with pytest.raises(TypeError, match="colour"):
        inspect.signature(oplib.full).bind((2,), 3, colour="red")
