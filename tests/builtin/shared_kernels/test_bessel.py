"""Bessel functions and Ai in single and double precision, beside SciPy and, digit for digit, mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import mpmath as mp
import numpy as np
import pytest
import scipy.special

import oplib

ORDERS = (0, 1)
WAVES = tuple(f"bessel_{kind}{order}" for kind in "jy" for order in ORDERS)
VANISHING = tuple(f"{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in ORDERS)
NAMES = (*WAVES, *VANISHING, "airy_ai")
IN_SCIPY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(scipy.special, name.removeprefix("bessel_")) for name in WAVES},
    **{f"modified_bessel_k{order}": getattr(scipy.special, f"k{order}") for order in ORDERS},
    **{f"scaled_modified_bessel_k{order}": getattr(scipy.special, f"k{order}e") for order in ORDERS},
    "airy_ai": lambda x: scipy.special.airy(x)[0],
}
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def spread(name: str, low: float, high: float, count: int = 60) -> np.ndarray:
    """Returns numbers of all sizes in a range, and their opposites where the function takes them."""
    sizes = np.geomspace(low, high, count)
    return np.concatenate([-sizes[::-1], sizes]) if name in ("bessel_j0", "bessel_j1", "airy_ai") else sizes


def compute(name: str, x: Any, dtype: Any = np.float64) -> np.ndarray:
    return getattr(oplib.special, name)(oplib.tensor(np.asarray(x, dtype))).numpy().astype(np.float64)


def find_exact(name: str, x: np.ndarray, *, derivative: int = 0) -> np.ndarray:
    """Computes the function in 40 digits."""
    kind, order = name[:-1].removeprefix("scaled_"), int(name[-1]) if name != "airy_ai" else 0
    plain = {
        "bessel_j": lambda x: mp.besselj(order, x),
        "bessel_y": lambda x: mp.bessely(order, x),
        "modified_bessel_k": lambda x: mp.besselk(order, x),
        "airy_a": mp.airyai,
    }[kind]
    function = (lambda x: plain(x) * mp.exp(x)) if name.startswith("scaled_") else plain
    with mp.workdps(40):
        return np.array([float(mp.diff(function, mp.mpf(float(one)), derivative)) for one in x])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("low", "high"), [(1e-30, 1e-3), (1e-3, 1), (1, 10), (10, 200)])
def test_it_agrees_with_scipy(name: str, low: float, high: float):
    x = spread(name, low, high)
    expected = IN_SCIPY[name](x)
    size = np.maximum(1, abs(x)) ** (1.5 if name == "airy_ai" else 1)  # what one bit of x changes
    assert np.all(abs(compute(name, x) - expected) <= 1e-15 * (size + 8 * abs(expected)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_it_has_the_digits_of_its_dtype(name: str, dtype: Any):
    """Where a function vanishes or waves, digits are lost only as one bit of the argument loses them."""
    x = spread(name, 1e-6, 60, 20).astype(dtype).astype(np.float64)
    expected = find_exact(name, x)
    slope = find_exact(name, x, derivative=1)
    lost = abs(compute(name, x, dtype) - expected) / np.finfo(dtype).eps
    is_normal = abs(expected) >= np.finfo(dtype).tiny
    bound = abs(x * slope) + 20 * abs(expected) + (name in WAVES)
    assert np.all((lost <= bound)[is_normal])


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_j1"])
@pytest.mark.parametrize("x", [1e4, 1e8, 1e16, 1e20])
def test_a_large_argument_loses_no_digits(name: str, x: float):
    expected = find_exact(name, np.array([x, -x]))
    np.testing.assert_allclose(compute(name, [x, -x]), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_j1"])
def test_a_zero_keeps_its_digits(name: str):
    zeros = scipy.special.jn_zeros(int(name[-1]), 2)
    beside = zeros * (1 + 1e-9)
    np.testing.assert_allclose(compute(name, beside), find_exact(name, beside), rtol=1e-14, atol=0)
    np.testing.assert_allclose(compute(name, zeros), find_exact(name, zeros), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bessel_j0", [1.0, 1.0, NAN, NAN, NAN]),
        ("bessel_j1", [0.0, -0.0, NAN, NAN, NAN]),
        *((f"bessel_y{order}", [-INF, -INF, NAN, NAN, NAN]) for order in ORDERS),
        *((name, [INF, INF, 0.0, NAN, NAN]) for name in VANISHING),
        ("airy_ai", [0.3550280538878172, 0.3550280538878172, 0.0, NAN, NAN]),
    ],
)
def test_zeros_infinities_and_nan_are_decided(name: str, expected: list[float]):
    found = compute(name, [0.0, -0.0, INF, -INF, NAN])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("name", [*VANISHING, "bessel_y0", "bessel_y1"])
def test_it_is_nan_below_zero(name: str):
    assert np.isnan(compute(name, [-1e-30, -1.0, -30.0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_are_those_of_the_function(name: str, order: int):
    x = np.array([0.3, 0.999, 1.6, 1.99, 2.01, 3.9, 4.1, 7.9, 8.1, 30.0])
    function = getattr(oplib.special, name)
    for _ in range(order):
        function = jax.grad(function)
    np.testing.assert_allclose(
        jax.vmap(function)(x), find_exact(name, x, derivative=order), rtol=1e-11, atol=1e-13
    )


@pytest.mark.slow
def test_derivatives_at_zero_are_those_of_the_power_series():
    def differentiate(name: str, order: int) -> float:
        function: Any = getattr(oplib.special, name)
        for _ in range(order):
            function = jax.grad(function)
        return float(function(np.float64(0)))

    assert [differentiate("bessel_j0", order) for order in (1, 2, 3, 4)] == [0, -0.5, 0, 0.375]
    assert [differentiate("bessel_j1", order) for order in (1, 2, 3)] == [0.5, 0, -0.375]
    assert differentiate("airy_ai", 1) == pytest.approx(-0.2588194037928068, rel=1e-15)
