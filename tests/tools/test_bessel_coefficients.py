"""The polynomials of Bessel functions are those that the script writes."""

from __future__ import annotations

import pytest

from tools.bessel_coefficients import PATH, make_text


def read(text):
    rows = [row.split() for row in text.replace("\n ", "").splitlines()]
    return {name: list(map(float, numbers)) for name, *numbers in rows}


@pytest.mark.slow
def test_the_polynomials_are_up_to_date():
    written, mine = read(make_text()), read(PATH.read_text())
    assert list(written) == list(mine)
    for name, numbers in written.items():
        assert mine[name] == pytest.approx(numbers, rel=1e-12, abs=1e-25), f"{name} of {PATH}"
