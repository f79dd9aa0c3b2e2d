"""Comparison of the results of two computations."""

import numpy as np
import pytest

from oplib.errors import OpMismatchError
from oplib.library.opcheck.comparison import Tolerance, require_equal

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
