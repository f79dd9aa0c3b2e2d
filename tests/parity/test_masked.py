"""Reductions and softmaxes with a mask, beside torch: values and gradients."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")

ALONG = ((0,), (-1,))
OVER = ((), (0,), ((0, 1),))
CALLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    **dict.fromkeys(("sum", "prod", "amax", "amin", "mean", "logsumexp"), OVER),
    **dict.fromkeys(("std", "var"), (*OVER, (1, False))),
    **dict.fromkeys(("cumsum", "cumprod", "softmax", "log_softmax", "softmin"), ALONG),
    "norm": ((), (1.0, 0), (float("inf"), 1)),
    "normalize": ((2.0, 1), (1.0, 0)),
    "median": ((), (0,)),
}
MASKS = {
    "none": None,
    "some": [[True, False, True], [True, True, False]],
    "no item of a row": [[False, False, False], [True, True, True]],
    "one row for all": [[True, False, True]],
    "a vector": [False, True, True],
}


def make(lib: Any, mask: Any) -> tuple[Any, Any]:
    x = lib.tensor([[1.0, -2.0, 3.5], [4.0, 0.5, -6.0]], dtype=lib.float64, requires_grad=True)
    return x, None if mask is None else lib.tensor(mask)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", CALLS)
def test_only_items_that_the_mask_keeps_count(assert_agrees, name, mask):
    for args in CALLS[name]:

        def program(lib, args=args):
            x, kept = make(lib, MASKS[mask])
            found = getattr(lib.masked, name)(x, *args, mask=kept)
            return found, lib.autograd.grad(found.sum(), x)

        assert_agrees(program)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "var"])
def test_dims_are_kept_and_dtypes_taken(assert_agrees, name):
    def program(lib):
        x, kept = make(lib, MASKS["some"])
        return getattr(lib.masked, name)(x, 0, keepdim=True, dtype=lib.float32, mask=kept)

    assert_agrees(program)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_are_among_the_items_that_the_mask_keeps(assert_agrees, name):
    def program(lib):
        x, kept = make(lib, MASKS["some"])
        return [getattr(lib.masked, name)(x, *args, mask=kept).int() for args in ((), (0,), (1,))]

    assert_agrees(program)


def test_a_mask_has_bools_and_no_more_dims(assert_agrees):
    assert_agrees(lambda lib: lib.masked.sum(lib.ones(2), mask=lib.ones(1, 2) > 0))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "var", "logsumexp"])
def test_no_dims_are_all_dims(assert_agrees, name):
    def program(lib):
        x, kept = make(lib, MASKS["some"])
        return [getattr(lib.masked, name)(x, dim=(), keepdim=keepdim, mask=kept) for keepdim in (False, True)]

    assert_agrees(program)
    assert_agrees(lambda lib: getattr(lib.masked, name)(lib.ones(2, 0, dtype=lib.float64), dim=()))


@pytest.mark.parametrize("mask", MASKS)
def test_the_median_of_integers_is_an_integer(assert_agrees, mask):
    def program(lib):
        _, kept = make(lib, MASKS[mask])
        return lib.masked.median(lib.tensor([[3, 1, 2], [5, 5, -7]]), 1, mask=kept)

    assert_agrees(program)
