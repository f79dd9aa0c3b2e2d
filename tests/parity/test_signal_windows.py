"""The windows of signals beside torch: values, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import oplib

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits")

NUMBERS: dict[str, list[dict[str, Any]]] = {
    "exponential": [{}, {"tau": 2.5}, {"tau": 0.0}],
    "gaussian": [{}, {"std": 2.0}, {"std": -1.0}],
    "general_cosine": [{"a": [0.3, 0.5, 0.2]}, {"a": [1.0]}],
    "general_hamming": [{}, {"alpha": 0.3}],
    "kaiser": [{}, {"beta": 3.0}, {"beta": 0.0}, {"beta": -1.0}],
}


@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_a_window_is_that_of_torch(assert_agrees, name):
    for numbers in NUMBERS.get(name, [{}]):
        for count in (0, 1, 2, 3, 8, 9, -1):
            for sym in (True, False):

                def program(lib, count=count, sym=sym, numbers=numbers):
                    window = getattr(lib.signal.windows, name)
                    return window(count, sym=sym, dtype=lib.float64, **numbers)

                assert_agrees(program)


@pytest.mark.parametrize("numbers", [{}, {"center": 1.5}, {"center": 1.5, "sym": False}])
def test_the_center_of_an_exponential_window_is_that_of_a_periodic_one(assert_agrees, numbers):
    for count in (0, 1, 5):
        assert_agrees(lambda lib, count=count: lib.signal.windows.exponential(count, **numbers))


def test_every_window_of_torch_is_there():
    assert set(oplib.signal.windows.__all__) == set(torch.signal.windows.__all__)


def test_another_dtype_is_refused(assert_agrees):
    assert_agrees(lambda lib: lib.signal.windows.hann(3, dtype=lib.int32))
