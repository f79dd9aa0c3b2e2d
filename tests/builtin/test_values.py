"""The greatest place in an array, which is read once for each array of JAX."""

from __future__ import annotations

import gc
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.builtin.values import _highest, are_indices, find_highest, is_known_below
from oplib.errors import DimensionError

DTYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_greatest_number_is_found(dtype: str, make: Any) -> None:
    most = np.iinfo(dtype).max
    array = make(np.asarray([[3, 0], [most, 1]], dtype))
    for _ in range(2):
        assert find_highest(array) == most
    assert find_highest(make(np.asarray([0], dtype))) == 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_a_negative_number_is_greater_than_all_lengths(dtype: str) -> None:
    for least in (-1, np.iinfo(dtype).min):
        assert find_highest(jnp.asarray([3, least], dtype)) == 2**64


def test_places_are_known_once_an_array_was_read() -> None:
    places, negative = jnp.asarray([1, 4]), jnp.asarray([0, -1])
    assert not is_known_below(places, 5)
    find_highest(places), find_highest(negative)
    assert is_known_below(places, 5)
    assert not is_known_below(places, 4)
    assert not is_known_below(negative, 100)
    numbers = np.asarray([1, 2])
    find_highest(numbers)
    assert not is_known_below(numbers, 9)  # they may be written


def test_an_array_of_numpy_is_read_again_because_it_may_have_changed() -> None:
    array = np.asarray([1, 2])
    assert find_highest(array) == 2
    array[0] = 5
    assert find_highest(array) == 5


def test_nothing_is_kept_of_an_array_that_is_gone() -> None:
    before = len(_highest)
    for number in range(20):
        find_highest(jnp.asarray([number]))
    gc.collect()
    assert len(_highest) <= before


@pytest.mark.parametrize("place", [3, 127, -1, -128])
def test_a_place_that_does_not_exist_is_refused_each_time(place: int) -> None:
    table, places = oplib.ones(3, 2), oplib.tensor([0, place], dtype=oplib.int8)
    for _ in range(2):
        with pytest.raises(DimensionError, match=r"embedding: index out of range\. Got indices from"):
            oplib.nn.functional.embedding(places, table)
        with pytest.raises(DimensionError, match=r"index_select: index -?[0-9]+ is out of bounds"):
            oplib.index_select(table, 0, places)


def test_a_negative_place_is_refused_by_a_table_longer_than_its_dtype() -> None:
    with pytest.raises(DimensionError, match="from -1 to 0"):
        oplib.nn.functional.embedding(oplib.tensor([-1, 0], dtype=oplib.int8), oplib.ones(300, 1))


def test_places_are_read_again_after_a_write() -> None:
    table, places = oplib.ones(3, 2), oplib.tensor([0, 1])
    oplib.nn.functional.embedding(places, table)
    places.add_(2)
    with pytest.raises(DimensionError, match="from 2 to 3"):
        oplib.nn.functional.embedding(places, table)


def test_a_view_of_known_places_is_not_read() -> None:
    places = oplib.tensor([2, 0, 1])
    assert are_indices(places, 3)
    views = [places[:, None], places[1:], places.expand(2, 3)]
    for view in views:
        assert are_indices(view, 3)
        assert view._storage._kept is None


def test_a_view_of_all_items_is_known_from_its_base() -> None:
    places = oplib.tensor([[2, 0], [1, 1]])
    view = places.t()
    assert are_indices(view, 3)
    assert view._storage._kept is None
    assert is_known_below(places._storage.array, 3)


def test_a_view_without_the_wrong_places_of_its_base_is_read() -> None:
    places = oplib.tensor([2, 0, -1, 9])
    assert are_indices(places[:2], 3)
    assert not are_indices(places[1:], 3)
    assert not are_indices(places[[0, 3]], 3)
    assert not are_indices(places[:, None], 3)


def test_a_view_with_other_items_than_its_base_is_read() -> None:
    places = oplib.tensor([1, 0], dtype=oplib.int16)
    assert are_indices(places, 2)
    parts = places.view(oplib.int8)
    assert are_indices(parts, 2)
    places.fill_(256)
    assert not are_indices(places, 2)
    assert are_indices(parts, 2)


def test_a_view_of_places_is_read_again_after_a_write_to_its_base() -> None:
    table, places = oplib.ones(3, 2), oplib.tensor([0, 1])
    view = places[:, None]
    for method in (table.gather, lambda _, index: table[index]):
        places.fill_(1)
        method(0, view)
        places.fill_(3)
        with pytest.raises(DimensionError, match="index 3 is out of bounds"):
            method(0, view)


@pytest.mark.parametrize("value", [np.zeros(0, np.int32), np.ones(2, np.float32), np.ones(2, bool)])
def test_no_items_and_items_that_are_no_integers_are_no_places(value: Any) -> None:
    assert not are_indices(value, 5)
    assert not are_indices(oplib.tensor(value), 5)
    assert not are_indices(oplib.tensor(value)[:1], 5)
