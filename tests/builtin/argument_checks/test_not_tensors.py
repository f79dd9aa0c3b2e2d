"""Arguments that are no tensors, in functions made of several ops: a TypeError, as in torch."""

from __future__ import annotations

import pytest

import oplib
import oplib.linalg
import oplib.nn.functional as F
from oplib.builtin.public_functions.specification import specify_composed
from oplib.builtin.public_functions.writer import emit_function

ONE = {
    "diff": lambda x: oplib.diff(x),
    "bincount": lambda x: oplib.bincount(x),
    "take": lambda x: oplib.take(x, oplib.tensor([0])),
    "linalg.norm": lambda x: oplib.linalg.norm(x),
    "linalg.cond": lambda x: oplib.linalg.cond(x),
    "tensordot": lambda x: oplib.tensordot(x, oplib.ones(2), 1),
    "cross_entropy": lambda x: F.cross_entropy(x, oplib.tensor(0)),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "grid_sample": lambda x: F.grid_sample(oplib.ones(1, 1, 2, 2), x, align_corners=False),
    "mse_loss": lambda x: F.mse_loss(x, oplib.ones(2)),
    "dropout2d": lambda x: F.dropout2d(x),
    "zeros_like": lambda x: oplib.zeros_like(x),
    "exp": lambda x: oplib.exp(x),
}
MANY = {
    "broadcast_tensors": oplib.broadcast_tensors,
    "meshgrid": oplib.meshgrid,
    "block_diag": oplib.block_diag,
    "cartesian_prod": oplib.cartesian_prod,
    "atleast_2d": oplib.atleast_2d,
    "column_stack": lambda *tensors: oplib.column_stack(tensors),
    "cat": lambda *tensors: oplib.cat(tensors),
    "hstack": lambda *tensors: oplib.hstack(tensors),
}


@pytest.mark.parametrize("given", [[1.0, 2.0], "ab", None])
@pytest.mark.parametrize("name", ONE)
def test_a_function_of_a_tensor_refuses_other_values_with_a_type_error(name, given):
    with pytest.raises(TypeError, match=r"oplib\.tensor\(\.\.\.\)|Pass a Tensor"):
        ONE[name](given)


@pytest.mark.parametrize("given", [(2, 3), ("a", "b")])
@pytest.mark.parametrize("name", MANY)
def test_a_function_of_tensors_refuses_numbers_among_them_with_a_type_error(name, given):
    with pytest.raises(TypeError, match="Tensor"):
        MANY[name](*given)


def test_the_error_names_the_argument_and_its_value():
    with pytest.raises(
        TypeError,
        match=r"gradient: argument 'input' expected a value of type 'Tensor' but found \[1.0, 2.0\]. "
        r"\[1.0, 2.0\] is no tensor, but of type list. Pass oplib.tensor\(...\) instead",
    ):
        oplib.gradient([1.0, 2.0])


def test_another_attribute_error_passes_as_it_is():
    class Odd:
        pass

    def ask(input):  # noqa: A002  torch's name
        return input.ndim if isinstance(input, Odd) else "".ndim

    guarded = emit_function(specify_composed("ask", ask), "<oplib.ask>")
    for given in (Odd(), oplib.ones(2)):
        with pytest.raises(AttributeError, match="ndim"):
            guarded(given)
