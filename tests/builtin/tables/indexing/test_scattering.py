"""Items that are combined at given places of a tensor."""

from __future__ import annotations

import pytest

import oplib


@pytest.mark.parametrize(
    ("include_self", "due"),
    [(True, [False, False, True, False]), (False, [True, False, True, False])],
)
def test_a_product_of_bools_is_whether_all_are_true(include_self: bool, due: list[bool]) -> None:
    whole = oplib.tensor([False, True, True, False])
    index, items = oplib.tensor([1, 0, 1, 2]), oplib.tensor([True, True, False, True])
    product = whole.scatter_reduce(0, index, items, "prod", include_self=include_self)
    assert product.dtype == oplib.bool
    assert product.tolist() == due
