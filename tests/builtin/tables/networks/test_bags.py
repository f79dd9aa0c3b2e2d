"""Bags of rows: what the largest item of a bag is if some are NaN."""

from typing import Any

import pytest

import oplib

NAN = float("nan")


@pytest.mark.parametrize("dtype", [oplib.float32, oplib.bfloat16], ids=str)
def test_the_maximum_of_a_bag_with_nan_is_nan_and_the_first_nan_has_the_gradient(dtype: Any) -> None:
    table = oplib.tensor([[1.0, NAN], [2.0, NAN], [NAN, 3.0]], dtype=dtype, requires_grad=True)
    indices, offsets = oplib.tensor([0, 1, 2, 1, 2, 1]), oplib.tensor([0, 3, 5, 6, 6])
    largest = oplib.nn.functional.embedding_bag(indices, table, offsets, mode="max")
    due = oplib.tensor([[NAN, NAN], [NAN, NAN], [2.0, NAN], [0.0, 0.0], [0.0, 0.0]], dtype=dtype)
    assert oplib.allclose(largest, due, equal_nan=True)
    (slope,) = oplib.autograd.grad(largest, table, oplib.ones_like(largest))
    assert slope.tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]]
