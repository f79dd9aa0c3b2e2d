"""Subclasses of Tensor: a name and methods, and no part in what ops give."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import oplib
from oplib.errors import DataTypeError


class Price(oplib.Tensor):
    """A tensor with a method of its own."""

    def taxed(self) -> Any:
        return self * 1.5


def make_price(**options: Any) -> Any:
    price: Any = oplib.tensor([2.0, 4.0], **options)
    price.__class__ = Price
    return price


def test_an_op_on_an_instance_gives_a_plain_tensor_at_every_call() -> None:
    price = make_price()
    for _ in range(3):
        results = [price + 1, 1 - price, price.taxed(), oplib.exp(price), price[0], price.detach()]
        assert {type(one) for one in [*results, price.mean()]} == {oplib.Tensor}
    assert price.taxed().tolist() == [3.0, 6.0]


def test_what_is_written_in_place_stays_what_it_is() -> None:
    price = make_price()
    assert type(price.mul_(2)) is Price
    assert price.tolist() == [4.0, 8.0]


def test_an_instance_is_a_leaf_like_any_other() -> None:
    price = make_price(requires_grad=True)
    price.taxed().sum().backward()
    assert price.grad.tolist() == [1.5, 1.5]
    assert type(price.grad) is oplib.Tensor


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_and_pickles_keep_the_class(duplicate: Any) -> None:
    other = duplicate(make_price())
    assert type(other) is Price
    assert other.tolist() == [2.0, 4.0]


def test_a_call_of_the_class_makes_an_instance() -> None:
    price = Price([1.0, 2.0])
    assert (type(price), price.tolist(), type(price * 2)) == (Price, [1.0, 2.0], oplib.Tensor)
    assert Price(2, 3).shape == (2, 3)
    with pytest.raises(DataTypeError, match=r"Price: data must be a sequence, and sizes integers\. Got 1\.5"):
        Price(1.5)
