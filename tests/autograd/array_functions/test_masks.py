"""Lists that are taken apart by masks, and put together again; values in place of which None may stand."""

from __future__ import annotations

import pytest

from oplib.autograd.array_functions.masks import (
    find_true,
    map_given,
    mask_given,
    pick_given,
    pick_true,
    spread,
)

MASK = (True, False, True)


def test_picks_the_values_whose_flag_is_true() -> None:
    assert pick_true("abc", MASK) == ["a", "c"]


def test_refuses_a_mask_of_another_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        pick_true("ab", MASK)


def test_puts_picked_values_back_between_none() -> None:
    assert spread("ac", MASK) == ["a", None, "c"]


def test_puts_picked_values_back_between_others() -> None:
    assert spread("AC", MASK, "abc") == ["A", "b", "C"]
    assert spread("AC", MASK, iter("abc")) == ["A", "b", "C"]


def test_refuses_others_of_another_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        spread("AC", MASK, "ab")


def test_finds_the_indices_of_true_flags() -> None:
    assert find_true(MASK) == [0, 2]
    assert find_true(()) == []


def test_picks_what_is_not_none() -> None:
    assert pick_given((0, None, "")) == [0, ""]


def test_maps_what_is_not_none() -> None:
    assert map_given(len, ("", None, "ab")) == [0, None, 2]


def test_masks_what_is_not_none() -> None:
    assert mask_given((0, None, "")) == MASK
