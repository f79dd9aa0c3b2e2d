"""The other paths to ops: ``oplib.linalg``, ``oplib.fft``, ``oplib.special`` and ``oplib.nn.functional``."""

import pytest

import oplib
from oplib.builtin.public_functions.families import ROWS
from oplib.errors import ArgumentError, AutogradError
from oplib.nn import functional

PARAMETERS = {
    "celu": (2.0,),
    "elu": (0.5,),
    "hardtanh": (-0.5, 0.25),
    "leaky_relu": (0.1,),
    "threshold": (0.1, 5.0),
}


@pytest.mark.parametrize("name", sorted(set(oplib.linalg.__all__) - {"LinAlgError", "matmul"}))
def test_a_function_of_linalg_is_the_op_of_its_name(name: str) -> None:
    assert getattr(oplib.linalg, name).__name__ == f"linalg_{name}"


@pytest.mark.parametrize("name", oplib.special.__all__)
def test_a_special_function_is_the_op_of_its_name_or_the_function_at_the_root(name: str) -> None:
    function = getattr(oplib.special, name)
    assert function is getattr(oplib, function.__name__, None) or function.__name__ in (
        f"special_{name}",
        f"special_{name.removeprefix('modified_bessel_')}",
    )


WITH_FLAG = sorted({row.op for row in ROWS if row.inplace_at})
ONLY_OF_NETWORKS = {"fold", "unfold", "elu_", "hardtanh_", "leaky_relu_"}  # in torch, and so here


@pytest.mark.parametrize("name", oplib.fft.__all__)
def test_a_function_of_fft_is_the_op_of_its_name(name: str) -> None:
    assert getattr(oplib.fft, name).__name__ == f"fft_{name}"


@pytest.mark.parametrize("name", sorted(set(functional.__all__) - {*WITH_FLAG, *ONLY_OF_NETWORKS}))
def test_a_function_of_networks_is_the_one_at_the_root(name: str) -> None:
    assert getattr(functional, name) is getattr(oplib, name)


@pytest.mark.parametrize("name", WITH_FLAG)
def test_an_activation_is_the_op_of_its_name_and_writes_in_place_when_asked(name: str) -> None:
    function, given = getattr(functional, name), PARAMETERS.get(name, ())
    x = oplib.tensor([-1.0, 0.5, 8.0])
    expected = getattr(oplib, name)(x, *given)
    assert oplib.equal(function(x, *given), expected)
    assert function(x, *given, True) is x
    assert oplib.equal(x, expected)
    assert x._version == 1


def test_an_activation_in_place_is_recorded_and_refused_for_leaves_and_arrays() -> None:
    x = oplib.tensor([-1.0, 2.0], requires_grad=True)
    functional.leaky_relu(x * 3, 0.5, inplace=True).sum().backward()
    assert x.grad.tolist() == [1.5, 3.0]
    with pytest.raises(AutogradError, match="leaf"):
        functional.relu(x, inplace=True)
    with pytest.raises(ArgumentError, match="relu_: only a Tensor can be written in place"):
        functional.relu(x.detach().array, inplace=True)


@pytest.mark.parametrize("module", [oplib.linalg, oplib.fft, oplib.special, functional])
def test_a_name_that_is_not_there_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018  looking it up is what raises
