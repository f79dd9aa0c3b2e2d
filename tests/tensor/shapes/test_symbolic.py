"""A symbolic length of an export is told apart from a number, and is an operand of operators."""

import jax
import numpy as np
import pytest
from jax import export

import oplib
from oplib.tensor.shapes.symbolic import SymbolicSize, has_symbols, is_symbolic


def test_symbols_and_numbers_are_told_apart():
    n, twice = export.symbolic_shape("n, 2*n")
    for size, expected in ((n, True), (twice, True), (n + 1, True), (3, False), (0, False)):
        assert isinstance(size, SymbolicSize) is is_symbolic(size) is expected
        assert has_symbols((2, size)) is has_symbols((size, 2)) is expected
    assert not has_symbols(())


FUNCTIONS = {
    "plus": lambda x: x + x.shape[0],
    "a difference": lambda x: x.shape[0] - x,
    "times": lambda x: x.shape[0] * x,
    "a quotient": lambda x: x / x.shape[0],
    "greater": lambda x: x > x.shape[0] - 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_takes_a_symbol_as_the_number_that_it_becomes(name):
    function = FUNCTIONS[name]

    def run(array):
        return function(oplib.Tensor.from_array(array)).array

    (n,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(run))(jax.ShapeDtypeStruct((n,), np.float32))
    for length in (1, 4):
        x = np.arange(length, dtype=np.float32)
        np.testing.assert_array_equal(exported.call(x), function(x))
