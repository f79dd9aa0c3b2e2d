"""The sizes of new tensors."""

import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize("size", [(0,), (2, 0), (np.int64(2), 3), (2, True), (oplib.tensor(2), 1)])
def test_lengths_are_whole_numbers_from_zero(size):
    shape = tuple(map(int, size))
    assert oplib.zeros(*size).shape == oplib.zeros(size).shape == oplib.empty(list(size)).shape == shape


@pytest.mark.parametrize("size", [(-1,), (2, -3), (np.int64(-1), 0)])
def test_a_negative_length_is_refused(size):
    with pytest.raises(ArgumentError, match=r"zeros: no dimension has a negative length\. Got size \("):
        oplib.zeros(*size)


@pytest.mark.parametrize("size", [(2.0,), (True, 2), ("a",), (2, None), ((2, 3), 4)])
def test_what_is_no_whole_number_is_refused(size):
    with pytest.raises(ArgumentTypeError, match="zeros: argument 'size' is made of integers"):
        oplib.zeros(*size)
