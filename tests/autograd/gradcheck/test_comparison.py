"""Which entries of two Jacobians count as different."""

import numpy as np
import pytest

from oplib.autograd.gradcheck.comparison import find_differing


@pytest.mark.parametrize(
    ("numerical", "analytical", "differs"),
    [
        (1.0, 1.0, False),
        (1.0, 1.2, True),
        (np.inf, np.inf, False),
        (np.inf, 1.0, True),
        (np.inf, -np.inf, True),
        (1.0, np.inf, True),
        (np.nan, np.nan, True),
    ],
)
def test_entries(numerical, analytical, differs):
    mask = find_differing(np.array([[numerical]]), np.array([[analytical]]), 1e-3, 1e-3)
    assert mask.tolist() == [[differs]]
