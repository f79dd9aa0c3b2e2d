"""The other paths to ops: ``oplib.linalg`` and ``oplib.nn.functional``."""

import pytest

import oplib
from oplib.nn import functional


@pytest.mark.parametrize("name", oplib.linalg.__all__)
def test_a_function_of_linalg_is_the_op_of_its_name(name: str) -> None:
    assert getattr(oplib.linalg, name).__name__ == f"linalg_{name}"


@pytest.mark.parametrize("name", functional.__all__)
def test_a_function_of_networks_is_the_one_at_the_root(name: str) -> None:
    assert getattr(functional, name) is getattr(oplib, name)


@pytest.mark.parametrize("module", [oplib.linalg, functional])
def test_a_name_that_is_not_there_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018  looking it up is what raises
