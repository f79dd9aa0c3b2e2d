"""The verdicts of gradcheck on right and wrong derivatives are those of torch."""

from __future__ import annotations

import itertools

import pytest

import oplib

torch = pytest.importorskip("torch")

MODES = [
    dict(zip(("fast_mode", "check_backward_ad", "check_forward_ad"), flags, strict=True))
    for flags in itertools.product([False, True], repeat=3)
    if any(flags[1:])
]
TOLERANCES = [{}, {"atol": 0.0}, {"rtol": 0.0}, {"atol": 0.0, "rtol": 0.0}, {"atol": 0.5, "rtol": 0.5}]


def make_scaled(library, backward, forward):
    """``(2 * x, 0 * y)`` with derivatives that are wrong by some factors."""

    class Scaled(library.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 0

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 * backward, second * 0

        @staticmethod
        def jvp(ctx, x, y):
            return x * 2 * forward, y * 0

    return Scaled.apply


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.0, 1.25), (1.25, 1.0), (5.0, 5.0)], ids=str)
def test_a_derivative_passes_where_it_passes_in_torch(factors, with_64_bits, without_warnings):
    def judge(library, options):
        x, y = (library.tensor(v, dtype=library.float64, requires_grad=True) for v in ([0.5, 3.0], [1.0]))
        function = make_scaled(library, *factors)
        return library.autograd.gradcheck(function, (x, y), raise_exception=False, **options)

    every = [{**mode, **tolerance} for mode in MODES for tolerance in TOLERANCES]
    if 1.0 in factors:  # what is not wrong by a factor of some size is left to the rounding of differences
        every = [one for one in every if one.get("rtol") != 0.0 or "atol" not in one]
    wrong = {str(one): judge(oplib, one) for one in every}
    assert wrong == {str(one): judge(torch, one) for one in every}


@pytest.mark.parametrize("options", MODES, ids=str)
def test_zero_differs_from_zero_by_no_more_than_a_tolerance_of_zero(options, with_64_bits, without_warnings):
    def judge(library):
        x = library.tensor([0.5, 3.0], dtype=library.float64, requires_grad=True)
        return library.autograd.gradcheck(lambda x: x * 0, x, atol=0.0, rtol=0.0, **options)

    assert judge(oplib) is judge(torch) is True
