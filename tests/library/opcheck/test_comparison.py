"""Comparison of the results of two computations."""

import numpy as np
import pytest

from oplib.errors import OpMismatchError
from oplib.library.opcheck.comparison import Tolerance, find_difference, require_equal

SAME = [(np.inf, np.inf), (np.nan, np.nan), (1.0, 1.0 + 1e-6), (complex(0, np.inf), complex(0, np.inf))]
OTHER = [(np.inf, -np.inf), (1.0, np.inf), (np.inf, 1.0), (np.nan, 1.0), (1.0, 1.1)]


def compare(left, right):
    arrays = [
        [np.asarray(value, np.complex64 if isinstance(value, complex) else np.float32)]
        for value in (left, right)
    ]
    require_equal(*arrays, Tolerance(), "the outputs differ", advice="Correct it.")


@pytest.mark.parametrize(("left", "right"), SAME)
def test_equal_values(left, right):
    compare(left, right)


@pytest.mark.parametrize(("left", "right"), OTHER)
def test_other_values_an_infinity_too(left, right):
    with pytest.raises(OpMismatchError, match="1 of 1 entries differ"):
        compare(left, right)


NUMBERS = [1, 1.0, True, False, 2.5, float("nan"), float("inf"), 1j, "text", None, (1, 2)]


@pytest.mark.parametrize("right", range(len(NUMBERS)))
@pytest.mark.parametrize("left", range(len(NUMBERS)))
def test_values_without_a_dtype_are_compared_as_python_does_and_nan_with_nan(left, right):
    first, second = NUMBERS[left], NUMBERS[right]
    is_same = first == second or left == right  # nan is the only one that differs from itself
    assert (find_difference(first, second, Tolerance()) == "") is is_same
    if not is_same:
        with pytest.raises(OpMismatchError, match=r"At position 1: .+ and .+ Correct it"):
            require_equal([0, first], [0, second], Tolerance(), "they differ", advice="Correct it.")


def test_another_number_of_values_differs():
    with pytest.raises(OpMismatchError, match=r"they differ\. Got 1 values and 2\. Correct it"):
        require_equal([0], [0, 0], Tolerance(), "they differ", advice="Correct it.")


@pytest.mark.parametrize("seed", range(4))
def test_arrays_differ_where_numpy_says_so(seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(3, 4)).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    for size in (0.0, 1e-7, 1e-3, 1e-1):
        left, right = base.copy(), base * (1 + size * rng.normal(size=base.shape).astype(np.float32))
        for array in (left, right):
            array[rng.integers(3), rng.integers(4)] = rng.choice(special)
        tolerance = Tolerance(1e-3, 1e-5)
        for equal_nan in (True, False):
            due = np.allclose(left, right, rtol=1e-3, atol=1e-5, equal_nan=equal_nan)
            found = find_difference(left, right, tolerance, equal_nan=equal_nan)
            assert (found == "") is due
            if not due:
                close = np.isclose(left, right, rtol=1e-3, atol=1e-5, equal_nan=equal_nan)
                assert f"{(~close).sum()} of 12 entries differ" in found


def test_shapes_and_dtypes_differ():
    for other, text in ((np.zeros(3, np.float32), "Shapes"), (np.zeros(2, np.float64), "Dtypes")):
        assert find_difference(np.zeros(2, np.float32), other, Tolerance()).startswith(text)
