"""The polynomials of Bessel functions are those that the script writes."""

from __future__ import annotations

import pytest

from oplib.builtin.kernels import bessel_coefficients
from tools.bessel_coefficients import PATH, make_text


@pytest.mark.slow
def test_the_polynomials_are_up_to_date():
    written = {}
    exec(make_text(), written)
    mine = vars(bessel_coefficients)
    assert {name for name in written if name.isupper()} == {name for name in mine if name.isupper()}
    for name in filter(str.isupper, written):
        assert mine[name] == pytest.approx(written[name], rel=1e-12, abs=1e-25), f"{name} of {PATH}"
