"""The result types in the stubs of functions that are made of several ops."""

from inspect import Parameter

import pytest

from oplib.builtin.composed.matrices.least_squares import Lstsq
from oplib.builtin.composed.matrices.older_linalg import QR, SVD, Triangular
from tools.stub_forms import declare
from tools.stub_results import find_result, list_named_results, name_class


@pytest.mark.parametrize(
    ("name", "made"), [("lstsq", Lstsq), ("qr", QR), ("svd", SVD), ("triangular_solve", Triangular)]
)
def test_a_named_result_has_the_fields_of_its_class(name, made):
    assert list_named_results()[find_result(name)] == made._fields


def test_a_name_of_torch_has_the_result_of_the_op_it_means():
    assert find_result("slogdet") == find_result("linalg_slogdet") == name_class(("sign", "logabsdet"))


def test_a_function_that_makes_a_tensor_of_numbers_is_declared_once():
    length = Parameter("length", Parameter.POSITIONAL_OR_KEYWORD)
    assert declare("hann_window", "hann_window", [length]) == ["def hann_window(length: Any) -> Tensor: ..."]
