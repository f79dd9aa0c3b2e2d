"""Numbers at which functions are decided and not computed, beside torch: nan, infinities, zeros, ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.families import ROWS
from oplib.builtin.public_functions.registry import FUNCTIONS, OVERLOADS
from tests.seed import draw_cases

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("without_warnings")  # of variances of nothing

NAN, INF = float("nan"), float("inf")
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e30, -1e30]
TIED = [[1.0, 2.0, 2.0, -0.0], [NAN, 2.0, 1.0, 0.0], [INF, -INF, INF, 1.0], [-1.0, -1.0, -1.0, -1.0]]
UNARY = "(Tensor self) -> Tensor"
# Where nan is all that a number out of range gives, and torch gives another kind of none.
APART = {
    "i0": "torch has no numbers where it overflows",
    **dict.fromkeys(("t", "fliplr", "trace", "logdet"), "it is of matrices"),
}


def choose(names: list[str], count: int) -> list[str]:
    return draw_cases(names, count, "special values")


def list_unary() -> list[str]:
    """The functions of one tensor that torch has too, and that give an item for each."""
    return sorted(
        row.op
        for row in ROWS
        if row.name == row.op
        and UNARY in str(OVERLOADS[row.name]._schema)
        and row.op in FUNCTIONS
        and hasattr(torch, row.op)
        and "f" in row.dtypes
        and row.view is None
        and row.op not in APART
    )


REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda lib, x, name=name: getattr(lib, name)(x, 1)
        for name in ("max", "min", "argmax", "argmin", "median", "sort", "cummax", "cummin", "sum", "prod")
    },
    **{
        name: lambda lib, x, name=name: getattr(lib, name)(x, 1)
        for name in ("amax", "amin", "mean", "nansum", "nanmean", "logsumexp", "var", "all", "any", "cumsum")
    },
    "whole max": lambda lib, x: lib.max(x),
    "aminmax": lambda lib, x: lib.aminmax(x, dim=1),
    "topk": lambda lib, x: lib.topk(x, 2, 1)[0],
    "count_nonzero": lambda lib, x: lib.count_nonzero(x, 1),
    "softmax": lambda lib, x: lib.softmax(x, 1),
    "norm": lambda lib, x: lib.norm(x, 2, 1),
}
# Of zeros of either sign torch's own take one or the other, by their order.
WITHOUT_SIGN = frozenset({"relu", "maximum", "minimum", "nanmedian"})
PAIRS = (
    "maximum",
    "minimum",
    "fmod",
    "remainder",
    "atan2",
    "copysign",
    "pow",
    "div",
    "eq",
    "lt",
    "hypot",
    "heaviside",
)


def to_numpy(value: Any) -> list[np.ndarray]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return [np.asarray(one.detach().numpy()) for one in values]


def assert_agrees(program: Callable[[Any], Any], *, with_signs: bool = True) -> None:
    """Compares numbers, and the signs of zeros."""
    for mine, other in zip(to_numpy(program(oplib)), to_numpy(program(torch)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=1e-6)
        if with_signs and mine.dtype.kind == "f":
            is_zero = (mine == 0) & (other == 0)
            np.testing.assert_array_equal(np.signbit(mine[is_zero]), np.signbit(other[is_zero]))


@pytest.mark.parametrize("name", choose(list_unary(), 18))
def test_a_function_of_an_item_is_torchs_at_special_values(name):
    assert_agrees(lambda lib: getattr(lib, name)(lib.tensor(SPECIAL)), with_signs=name not in WITHOUT_SIGN)


@pytest.mark.parametrize("name", choose(sorted(PAIRS), 4))
def test_a_function_of_two_items_is_torchs_at_special_values(name):
    first, second = np.meshgrid(np.float32(SPECIAL[:9]), np.float32(SPECIAL[:9]))
    assert_agrees(
        lambda lib: getattr(lib, name)(lib.tensor(first.tolist()), lib.tensor(second.tolist())),
        with_signs=name not in WITHOUT_SIGN,
    )


@pytest.mark.parametrize("name", choose(sorted(REDUCTIONS), 8))
def test_a_reduction_is_torchs_at_ties_and_where_items_are_no_numbers(name):
    assert_agrees(lambda lib: REDUCTIONS[name](lib, lib.tensor(TIED)))


@pytest.mark.parametrize(
    "name", choose(["sum", "prod", "mean", "nansum", "var", "all", "any", "logsumexp"], 4)
)
def test_a_reduction_of_nothing_and_of_a_number_is_torchs(name):
    assert_agrees(lambda lib: getattr(lib, name)(lib.ones(2, 0), 1))
    assert_agrees(lambda lib: getattr(lib, name)(lib.tensor(3.0), 0))


def test_the_default_dtype_is_that_of_integers_made_floating_and_of_numbers():
    before = torch.get_default_dtype()
    try:
        for lib in (oplib, torch):
            lib.set_default_dtype(lib.float16)
        for program in (
            lambda lib: lib.exp(lib.tensor([1, 2])),
            lambda lib: lib.tensor([1, 2]) / 2,
            lambda lib: lib.tensor([1, 2]) * 1.5,
            lambda lib: lib.tensor([True]) + 0.5,
            lambda lib: lib.tensor([1.5]) + lib.tensor(2),
        ):
            assert str(program(oplib).dtype) == str(program(torch).dtype).removeprefix("torch.")
    finally:
        oplib.set_default_dtype(oplib.float32)
        torch.set_default_dtype(before)
